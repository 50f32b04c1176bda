"""What "healthy" means for a @TYPE@. Keep no state: every call meets a fresh instance."""

import json

from wit_world import exports
from wit_world.exports.health_check import Health, HealthStatus

from told import told


class Plugin(exports.Plugin):
    @told
    def describe(self) -> str:
        return json.dumps({
            "name": "@NAME@",
            "version": "0.1.0",
            "summary": "Health of a @TYPE@",
            "healthKinds": ["example.org/@TYPE@"],
        })


class HealthCheck(exports.HealthCheck):
    @told
    def assess(self, object: str, context: str) -> Health:
        thing = json.loads(object) or {}
        status = thing.get("status") or {}
        if status.get("observedGeneration") != thing.get("metadata", {}).get("generation"):
            return Health(HealthStatus.PROGRESSING, "the controller has not seen the latest spec")
        conditions = {one["type"]: one for one in status.get("conditions") or []}
        ready = conditions.get("Ready", {})
        healthy = ready.get("status") == "True"
        return Health(HealthStatus.HEALTHY if healthy else HealthStatus.DEGRADED, ready.get("message", "not ready"))
