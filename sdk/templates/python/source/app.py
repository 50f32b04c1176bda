"""Where the program of `source: {type: @SHORT@, configMap: NAME}` is: in the ConfigMap itself.

Keep no state, and ask the same things in the same order: a call may be made again with one answer more.
"""

import json

from componentize_py_types import Err
from wit_world import exports
from wit_world.exports.source_provider import Artifact_Files, File, Resolution
from wit_world.imports import kube
from wit_world.imports.types import Error, ErrorClass, FieldError, ObjectRef

from told import told


class Plugin(exports.Plugin):
    @told
    def describe(self) -> str:
        return json.dumps({
            "name": "@NAME@",
            "version": "0.1.0",
            "summary": "Programs in ConfigMaps",
            "sources": ["@SHORT@"],
            "wants": {"interfaces": ["kube"], "kinds": ["/ConfigMap"]},
        })


def reference(spec: dict) -> ObjectRef:
    return ObjectRef("v1", "ConfigMap", spec.get("source", {}).get("configMap") or "")


class SourceProvider(exports.SourceProvider):
    @told
    def validate(self, spec: str) -> list[FieldError]:
        if reference(json.loads(spec)).name:
            return []
        return [FieldError("source.configMap", "spec.source.configMap must name a ConfigMap")]

    @told
    def watches(self, spec: str) -> list[ObjectRef]:
        return [reference(json.loads(spec))]

    @told
    def resolve(self, request: str) -> Resolution:
        wanted = reference(json.loads(request)["spec"])
        text = kube.get(wanted)
        if text is None:
            raise Err(Error(ErrorClass.NOT_FOUND, "ConfigMapMissing", f"there is no ConfigMap {wanted.name}", None, "{}"))
        found = json.loads(text)
        files = [File(path, content.encode()) for path, content in (found.get("data") or {}).items()]
        revision = f"{wanted.name}@{found['metadata'].get('resourceVersion')}"
        return Resolution(revision, Artifact_Files(files), "", None)
