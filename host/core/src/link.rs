//! The annotation by which Argo CD shows the console page of a Stack's last run, for Stacks whose authors ask for it.

use windlass_api::Stack;
use windlass_api::names::{ARGOCD_LINK_ANNOTATION, EXTERNAL_LINK_ANNOTATION};

/// What is to be done about the link of a Stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExternalLink {
    /// Nothing: it is right, nobody asks for it, or there is no page yet.
    Leave,
    /// Set it to this address.
    Set(String),
    /// Nobody asks for it any more: it goes if it was set by us, and stays if it is its author's.
    Withdraw,
}

/// Whether the link has, or may be given, any say about this Stack. Most have neither annotation.
pub fn has_link(stack: &Stack) -> bool {
    [ARGOCD_LINK_ANNOTATION, EXTERNAL_LINK_ANNOTATION]
        .iter()
        .any(|name| annotation(stack, name).is_some())
}

/// Decides from the Stack alone. Who owns an annotation is known to the API server, which refuses what is not ours.
pub fn external_link(stack: &Stack) -> ExternalLink {
    if stack.metadata.deletion_timestamp.is_some() {
        return ExternalLink::Leave;
    }
    let shown = annotation(stack, ARGOCD_LINK_ANNOTATION);
    if annotation(stack, EXTERNAL_LINK_ANNOTATION) != Some("true") {
        return match shown {
            Some(_) => ExternalLink::Withdraw,
            None => ExternalLink::Leave,
        };
    }
    let last = stack
        .status
        .as_ref()
        .and_then(|status| status.last_update.as_ref());
    match last.and_then(|last| last.permalink.as_deref()) {
        Some(page) if !page.is_empty() && shown != Some(page) => ExternalLink::Set(page.to_owned()),
        _ => ExternalLink::Leave,
    }
}

fn annotation<'a>(stack: &'a Stack, name: &str) -> Option<&'a str> {
    let all = stack.metadata.annotations.as_ref()?;
    all.get(name).map(String::as_str)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::{Value, json};

    const PAGE: &str = "https://app.pulumi.com/acme/app/dev/updates/7";

    fn decided(annotations: Value, permalink: Value) -> ExternalLink {
        let stack: Stack = serde_json::from_value(json!({
            "apiVersion": "pulumi.com/v1", "kind": "Stack",
            "metadata": {"name": "app", "annotations": annotations},
            "spec": {"stack": "acme/app/dev"},
            "status": {"lastUpdate": {"permalink": permalink}},
        }))
        .unwrap();
        assert_eq!(has_link(&stack), annotations != json!({}));
        external_link(&stack)
    }

    #[test]
    fn it_is_set_for_who_asks_when_there_is_a_page_that_it_does_not_show() {
        let asked = json!({EXTERNAL_LINK_ANNOTATION: "true"});
        assert_eq!(
            decided(asked.clone(), json!(PAGE)),
            ExternalLink::Set(PAGE.into())
        );
        assert_eq!(decided(asked.clone(), Value::Null), ExternalLink::Leave);
        assert_eq!(decided(asked, json!("")), ExternalLink::Leave);
        let shown =
            |page: &str| json!({EXTERNAL_LINK_ANNOTATION: "true", ARGOCD_LINK_ANNOTATION: page});
        assert_eq!(decided(shown(PAGE), json!(PAGE)), ExternalLink::Leave);
        assert_eq!(
            decided(shown("https://app.pulumi.com/old"), json!(PAGE)),
            ExternalLink::Set(PAGE.into())
        );
        // A run without a page takes nothing away.
        assert_eq!(decided(shown(PAGE), Value::Null), ExternalLink::Leave);
    }

    #[test]
    fn it_is_withdrawn_from_who_asks_no_more() {
        for asks in [json!({}), json!({EXTERNAL_LINK_ANNOTATION: "false"})] {
            let mut shown = asks.clone();
            shown[ARGOCD_LINK_ANNOTATION] = json!(PAGE);
            assert_eq!(decided(shown, json!(PAGE)), ExternalLink::Withdraw);
            assert_eq!(decided(asks, json!(PAGE)), ExternalLink::Leave);
        }
    }

    #[test]
    fn what_is_being_deleted_is_left_alone() {
        let stack: Stack = serde_json::from_value(json!({
            "apiVersion": "pulumi.com/v1", "kind": "Stack",
            "metadata": {
                "name": "app", "deletionTimestamp": "2026-01-01T00:00:00Z",
                "annotations": {EXTERNAL_LINK_ANNOTATION: "true"},
            },
            "spec": {"stack": "acme/app/dev"},
            "status": {"lastUpdate": {"permalink": PAGE}},
        }))
        .unwrap();
        assert_eq!(external_link(&stack), ExternalLink::Leave);
    }
}
