//! What the API server was asked, by whom: tests count requests.

use std::path::Path;

use serde::Deserialize;

use crate::error::{At as _, Result};

/// One request. Of a watch, the moment at which it began to answer; of everything else, the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditEvent {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`; for URLs
    /// that are no resources the HTTP method in lower case.
    pub verb: String,
    /// The user's name; for a service account `system:serviceaccount:NAMESPACE:NAME`.
    pub user: String,
    /// What the client calls itself.
    pub user_agent: String,
    /// The plural, empty for URLs that are no resources.
    pub resource: String,
    /// The API group; empty for the core group.
    pub group: String,
    /// For example `status`; else empty.
    pub subresource: String,
    /// Empty for resources of the cluster.
    pub namespace: String,
    /// Empty for lists, watches and creations under a generated name.
    pub name: String,
    /// The answer's HTTP status; 0 if there was none.
    pub code: u16,
    /// Path and query.
    pub uri: String,
    /// When it was received, RFC 3339 with microseconds.
    pub received: String,
}

/// All requests so far.
#[derive(Debug, Clone, Default)]
pub struct AuditLog(pub Vec<AuditEvent>);

impl AuditLog {
    /// Reads the API server's file.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let text = match std::fs::read_to_string(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            other => other.at(path)?,
        };
        // The last line may still be being written.
        Ok(Self(text.lines().filter_map(parse).collect()))
    }

    /// The requests of one user.
    #[must_use]
    pub fn of_user(&self, user: &str) -> Self {
        self.only(|event| event.user == user)
    }

    /// The requests that fulfil a condition.
    #[must_use]
    pub fn only(&self, condition: impl Fn(&AuditEvent) -> bool) -> Self {
        let kept = self.0.iter().filter(|event| condition(event));
        Self(kept.cloned().collect())
    }

    /// How many requests have this verb and resource (its plural, with `/` and the subresource if
    /// there is one).
    pub fn count(&self, verb: &str, resource: &str) -> usize {
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        let matching = self.0.iter().filter(|event| {
            event.verb == verb && event.resource == resource && event.subresource == subresource
        });
        matching.count()
    }

    /// How many requests change something.
    pub fn writes(&self) -> usize {
        let reads = ["get", "list", "watch"];
        let writes = self
            .0
            .iter()
            .filter(|event| !reads.contains(&event.verb.as_str()));
        writes.count()
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    stage: String,
    verb: String,
    #[serde(rename = "requestURI")]
    request_uri: String,
    user: User,
    #[serde(default)]
    user_agent: String,
    #[serde(default)]
    object_ref: ObjectRef,
    #[serde(default)]
    response_status: Status,
    request_received_timestamp: String,
}

#[derive(Deserialize)]
struct User {
    username: String,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct ObjectRef {
    resource: String,
    subresource: String,
    api_group: String,
    namespace: String,
    name: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Status {
    code: u16,
}

fn parse(line: &str) -> Option<AuditEvent> {
    let line: Line = serde_json::from_str(line).ok()?;
    // A watch is logged when it begins and when it ends; one that is refused, and others, only at
    // their end.
    let refused = line.response_status.code >= 400;
    let begins = line.stage == "ResponseStarted";
    if begins != (line.verb == "watch" && !refused) {
        return None;
    }
    Some(AuditEvent {
        verb: line.verb,
        user: line.user.username,
        user_agent: line.user_agent,
        resource: line.object_ref.resource,
        group: line.object_ref.api_group,
        subresource: line.object_ref.subresource,
        namespace: line.object_ref.namespace,
        name: line.object_ref.name,
        code: line.response_status.code,
        uri: line.request_uri,
        received: line.request_received_timestamp,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn line(verb: &str, stage: &str) -> String {
        format!(
            r#"{{"stage":"{stage}","verb":"{verb}","requestURI":"/api/v1/pods","user":{{"username":"eve","groups":[]}},
            "objectRef":{{"resource":"pods","subresource":"status","namespace":"a"}},"responseStatus":{{"code":200}},
            "requestReceivedTimestamp":"2030-01-01T00:00:00.000000Z"}}"#
        )
        .replace('\n', "")
    }

    #[test]
    fn a_watch_counts_once_and_while_it_lasts() {
        assert!(parse(&line("watch", "ResponseStarted")).is_some());
        assert!(parse(&line("watch", "ResponseComplete")).is_none());
        assert!(parse(&line("get", "ResponseComplete")).is_some());
        assert!(parse(&line("list", "ResponseStarted")).is_none());
    }

    #[test]
    fn requests_are_counted_by_verb_and_resource_with_its_subresource() {
        let log = AuditLog(vec![parse(&line("update", "ResponseComplete")).unwrap()]);
        assert_eq!(log.count("update", "pods/status"), 1);
        assert_eq!(log.count("update", "pods"), 0);
        assert_eq!((log.writes(), log.of_user("eve").0.len()), (1, 1));
        assert_eq!(log.of_user("adam").writes(), 0);
    }
}
