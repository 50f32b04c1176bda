"""How stacks are called in `@SHORT@://BUCKET`, an S3 bucket with a rule for names: TEAM-NAME."""

import json
import re

from componentize_py_types import Err
from wit_world import exports
from wit_world.exports.backend import (
    Failure,
    FailureClass_Program,
    FailureClass_Unavailable,
    LockVerdict,
)
from wit_world.imports.types import Error, ErrorClass

from told import told


class Plugin(exports.Plugin):
    @told
    def describe(self) -> str:
        return json.dumps({
            "name": "@NAME@",
            "version": "0.1.0",
            "summary": "Buckets with a rule for the names of stacks",
            "backends": ["@SHORT@"],
        })


class Backend(exports.Backend):
    @told
    def open(self, request: str) -> str:
        asked = json.loads(request)
        parts = asked["stack"].split("/")
        if not re.fullmatch(r"[a-z]+-[a-z0-9]+", parts[-1]):
            message = f"stack name {parts[-1]}: call it TEAM-NAME"
            raise Err(Error(ErrorClass.INVALID, "StackNameInvalid", message, None, "{}"))
        project = parts[-2] if len(parts) > 1 else asked.get("project")
        url = re.sub(r"^[^:]+", "s3", asked["url"])
        return json.dumps({
            "stack": f"organization/{project}/{parts[-1]}",
            "env": {"PULUMI_BACKEND_URL": url},
        })

    @told
    def classify(self, outcome: str) -> Failure:
        ended = json.loads(outcome)
        tail = ended.get("stderrTail") or ""
        diagnostics = ended.get("diagnostics") or []
        message = diagnostics[-1]["message"] if diagnostics else tail[-500:]
        if re.search(r"timeout|connection refused", tail, re.IGNORECASE):
            return Failure(FailureClass_Unavailable(), "BackendUnavailable", message)
        return Failure(FailureClass_Program(), "RunFailed", message)

    @told
    def stale_lock(self, locks: str, holders: str) -> LockVerdict:
        return LockVerdict.KEEP
