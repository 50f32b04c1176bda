//! Names that are part of the contract: with PKO's users, with Argo CD, and with objects that exist already.

use sha2::{Digest, Sha256};

/// Group of Stack and Program.
pub const GROUP: &str = "pulumi.com";
/// Group of Workspace and Update.
pub const AUTO_GROUP: &str = "auto.pulumi.com";

/// Finalizer of Stacks, and of the Updates that a Stack has not recorded yet.
pub const FINALIZER: &str = "finalizer.stack.pulumi.com";

/// Annotation of a Stack: a new value asks for a run.
pub const RECONCILE_REQUEST_ANNOTATION: &str = "pulumi.com/reconciliation-request";
/// Annotation of an outputs Secret: JSON array of the keys that are secret, sorted.
pub const SECRETS_ANNOTATION: &str = "pulumi.com/secrets";
/// Annotation of a workspace pod that is set up.
pub const POD_INITIALIZED_ANNOTATION: &str = "auto.pulumi.com/initialized";
/// Annotation of a workspace pod: digest of what it was made from.
pub const POD_REVISION_HASH_ANNOTATION: &str = "auto.pulumi.com/revision-hash";
/// Annotation of children: Argo CD need not refresh an application for their changes.
pub const ARGOCD_IGNORE_UPDATES_ANNOTATION: &str = "argocd.argoproj.io/ignore-resource-updates";
/// Annotation of an Update that is over: the console page of its run, which Argo CD offers beside the object. A Stack has it
/// from its author, or from us if [`EXTERNAL_LINK_ANNOTATION`] asks for it.
pub const ARGOCD_LINK_ANNOTATION: &str = "link.argocd.argoproj.io/external-link";

/// Annotation of a Stack: with the value `true` the Stack shows the console page of its last run in Argo CD
/// ([`ARGOCD_LINK_ANNOTATION`]), unless somebody else has set a link.
pub const EXTERNAL_LINK_ANNOTATION: &str = "windlass.pulumi.com/external-link";

/// Label of what a Stack creates, with the value [`COMPONENT_STACK`].
pub const COMPONENT_LABEL: &str = "pulumi.com/component";
pub const COMPONENT_STACK: &str = "stack";
/// Label of what a Stack creates: the name of the Stack object.
pub const STACK_NAME_LABEL: &str = "pulumi.com/stack-name";
/// Label of what a Workspace or an Update creates: [`COMPONENT_WORKSPACE`] or [`COMPONENT_UPDATE`].
pub const AUTO_COMPONENT_LABEL: &str = "auto.pulumi.com/component";
pub const COMPONENT_WORKSPACE: &str = "workspace";
pub const COMPONENT_UPDATE: &str = "update";
pub const WORKSPACE_NAME_LABEL: &str = "auto.pulumi.com/workspace-name";
pub const UPDATE_NAME_LABEL: &str = "auto.pulumi.com/update-name";

/// Field manager of objects.
pub const MANAGER: &str = "pulumi-kubernetes-operator";
pub const STACK_STATUS_MANAGER: &str = "pulumi-kubernetes-operator/stack-status";
pub const STACK_FINALIZER_MANAGER: &str = "pulumi-kubernetes-operator/stack-finalizer";
pub const PREREQUISITE_REQUEST_MANAGER: &str = "pulumi-kubernetes-operator/prerequisite-request";
pub const EXTERNAL_LINK_MANAGER: &str = "pulumi-kubernetes-operator/external-link";
pub const PROGRAM_STATUS_MANAGER: &str = "pulumi-kubernetes-operator/program-status";
pub const WORKSPACE_STATUS_MANAGER: &str = "pulumi-kubernetes-operator/workspace-status";
pub const UPDATE_STATUS_MANAGER: &str = "pulumi-kubernetes-operator/update-status";

/// Lease of the leader.
pub const LEASE: &str = "operator.pulumi.com";

/// Name of the pulumi container in a workspace pod.
pub const PULUMI_CONTAINER: &str = "pulumi";
/// Longest name of a Stack object, in characters.
pub const STACK_NAME_MAX: usize = 42;
/// What a status shows in place of a secret output.
pub const MASKED_OUTPUT: &str = "[secret]";

/// Name of a Stack's Workspace: the Stack's own.
pub fn workspace_name(stack: &str) -> String {
    stack.to_owned()
}

/// Name of a workspace's Service.
pub fn workspace_service_name(workspace: &str) -> String {
    format!("{workspace}-workspace")
}

/// Name of a workspace's pod.
pub fn workspace_pod_name(workspace: &str) -> String {
    format!("{workspace}-workspace-0")
}

/// Name of a Stack's Update: the same for the same Stack (`uid`, not only the name) and sequence, so that creating it
/// twice is one Update.
pub fn update_name(stack: &str, uid: &str, sequence: u64) -> String {
    let mut hash = Sha256::new();
    // The length keeps (uid, sequence) apart from any other pair with the same bytes in a row.
    hash.update((uid.len() as u64).to_be_bytes());
    hash.update(uid.as_bytes());
    hash.update(sequence.to_be_bytes());
    let digest = hex::encode(hash.finalize());
    format!("{stack}-{}", &digest[..20])
}

/// Name of the Secret with an Update's outputs.
pub fn outputs_secret_name(update: &str) -> String {
    format!("{update}-stack-outputs")
}

/// Data key of an output in its Secret: characters that a Secret's key may not have become `_`.
pub fn output_key(output: &str) -> String {
    output
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_') {
                c
            } else {
                '_'
            }
        })
        .collect()
}

/// Value of the reconcile request put on a prerequisite that is out of date. Idempotent per Update of the prerequisite.
pub fn prerequisite_request(last_update: &str) -> String {
    format!("after-{last_update}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn update_names_are_stable_and_differ_by_each_input() {
        let name = update_name("web", "1b4e28ba-2fa1-11d2-883f-0016d3cca427", 7);
        assert_eq!(
            name,
            update_name("web", "1b4e28ba-2fa1-11d2-883f-0016d3cca427", 7)
        );
        assert_eq!(name.len(), "web-".len() + 20);
        assert!(
            name["web-".len()..]
                .bytes()
                .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
        );
        assert_ne!(
            name,
            update_name("web", "1b4e28ba-2fa1-11d2-883f-0016d3cca427", 8)
        );
        assert_ne!(
            name,
            update_name("web", "1b4e28ba-2fa1-11d2-883f-0016d3cca428", 7)
        );
    }

    #[test]
    fn the_longest_stack_name_leaves_room_for_every_child() {
        let stack = "s".repeat(STACK_NAME_MAX);
        let update = update_name(&stack, "uid", u64::MAX);
        assert!(update.len() <= 63);
        assert!(workspace_pod_name(&stack).len() <= 63);
        assert!(outputs_secret_name(&update).len() <= 253);
    }

    #[test]
    fn output_keys_are_valid_in_a_secret() {
        assert_eq!(output_key("a:b/c d"), "a_b_c_d");
        assert_eq!(output_key("ok-1.2_3"), "ok-1.2_3");
        assert_eq!(output_key("größe"), "gr__e");
    }
}
