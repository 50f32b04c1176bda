//! What a template may not say, and how it is told.

use pretty_assertions::assert_eq;
use windlass_pods::{TemplateError, pod};

use crate::support::*;

#[test]
fn a_template_cannot_move_the_workspace() {
    for (metadata, field, why) in [
        (
            "name: other",
            "name",
            "the Workspace has the name of its Stack",
        ),
        (
            "namespace: kube-system",
            "namespace",
            "the Workspace is in the namespace of its Stack",
        ),
        (
            "ownerReferences: [{apiVersion: v1, kind: Pod, name: p, uid: u}]",
            "ownerReferences",
            "the Workspace belongs to its Stack",
        ),
    ] {
        let error = refused(&stack(&format!(
            "workspaceTemplate: {{metadata: {{{metadata}}}}}"
        )));
        assert!(matches!(&error, TemplateError::Reserved { .. }));
        assert_eq!(
            error.to_string(),
            format!(
                "spec.workspaceTemplate.metadata.{field} cannot be set: {why}; remove the field"
            )
        );
    }
}

#[test]
fn a_template_may_say_where_the_workspace_is_anyway() {
    let plain = make_workspace(&stack(""));
    let said = make_workspace(&stack(
        "workspaceTemplate: {metadata: {name: shop, namespace: team, ownerReferences: []}}",
    ));
    assert_eq!(said, plain);
}

/// A field of a pod template that is refused, and the start of what is said; the same in a Stack and in a Workspace.
const REFUSED: &[(&str, &str)] = &[
    ("restartPolicy: Never", "restartPolicy cannot be set"),
    (
        "activeDeadlineSeconds: 60",
        "activeDeadlineSeconds cannot be set",
    ),
    (
        "ephemeralContainers: [{name: debug, image: x}]",
        "ephemeralContainers cannot be set",
    ),
    (
        "containers: [{name: pulumi}, {image: x}]",
        "containers[1].name: \"\" is no valid name",
    ),
    (
        "containers: [{name: Side_Car, image: x}]",
        "containers[0].name: \"Side_Car\" is no valid name",
    ),
    (
        "containers: [{name: a, image: x}, {name: a, image: y}]",
        "containers[1].name: there are two of the container \"a\"",
    ),
    (
        "{containers: [{name: a, image: x}], initContainers: [{name: a, image: y}]}",
        "containers[0].name: there are two of the container \"a\"",
    ),
    (
        "volumes: [{emptyDir: {}}]",
        "volumes[0].name: \"\" is no valid name",
    ),
    (
        "volumes: [{name: a.b, emptyDir: {}}]",
        "volumes[0].name: \"a.b\" is no valid name",
    ),
    (
        "volumes: [{name: v, emptyDir: {}}, {name: v, emptyDir: {}}]",
        "volumes[1].name: there are two of the volume \"v\"",
    ),
    (
        "volumes: [{name: windlass-tls, emptyDir: {}}]",
        "volumes[0].name: the volume \"windlass-tls\" is the operator's own",
    ),
    (
        "containers: [{name: spy, image: x, volumeMounts: [{name: windlass-tls, mountPath: /t}]}]",
        "containers[0].volumeMounts[0].name: the volume \"windlass-tls\" is the operator's own",
    ),
    (
        "containers: [{name: pulumi, volumeMounts: [{name: share}]}]",
        "containers[0].volumeMounts[0].mountPath: the path is missing",
    ),
    (
        "containers: [{name: pulumi, volumeMounts: [{name: share, mountPath: /a}, {name: share, mountPath: /a}]}]",
        "containers[0].volumeMounts[1].mountPath: there are two of the mount \"/a\"",
    ),
    (
        "containers: [{name: pulumi, env: [{value: x}]}]",
        "containers[0].env[0].name: the variable has no name",
    ),
    (
        "containers: [{name: pulumi, ports: [{name: web}]}]",
        "containers[0].ports[0].containerPort: 0 is no port",
    ),
];

#[test]
fn what_the_api_server_would_refuse_is_told_by_field() {
    for (fields, message) in REFUSED {
        let fields = match fields.strip_prefix('{') {
            Some(rest) if fields.ends_with('}') && rest.starts_with("containers") => {
                rest[..rest.len() - 1].to_owned()
            }
            _ => (*fields).to_owned(),
        };
        let of_stack = refused(&stack(&format!(
            "workspaceTemplate: {{spec: {{podTemplate: {{spec: {{{fields}}}}}}}}}"
        )))
        .to_string();
        let expected = format!("spec.workspaceTemplate.spec.podTemplate.spec.{message}");
        assert!(of_stack.starts_with(&expected), "{of_stack}\n{expected}");

        let made_by_hand = workspace(&format!("podTemplate: {{spec: {{{fields}}}}}"));
        let of_workspace = pod(&made_by_hand, &options()).unwrap_err().to_string();
        let expected = format!("spec.podTemplate.spec.{message}");
        assert!(
            of_workspace.starts_with(&expected),
            "{of_workspace}\n{expected}"
        );
    }
}

#[test]
fn what_only_the_merged_pod_shows_is_told_by_field() {
    for (fields, message) in [
        (
            "containers: [{name: side}]",
            "spec.podTemplate.spec.containers[name=side].image: the container has no image",
        ),
        (
            "initContainers: [{name: prepare}]",
            "spec.podTemplate.spec.initContainers[name=prepare].image: the container has no image",
        ),
        (
            "containers: [{name: pulumi, volumeMounts: [{name: cache, mountPath: /cache}]}]",
            "spec.podTemplate.spec.containers[name=pulumi].volumeMounts[mountPath=/cache].name: \
             there is no volume \"cache\"; add it to volumes",
        ),
    ] {
        let made_by_hand = workspace(&format!("podTemplate: {{spec: {{{fields}}}}}"));
        assert_eq!(
            pod(&made_by_hand, &options()).unwrap_err().to_string(),
            message
        );
    }
}

#[test]
fn a_stack_of_the_template_needs_its_keys() {
    for (stacks, message) in [
        (
            "[{name: a}, {name: \"\", create: true}]",
            "spec.workspaceTemplate.spec.stacks[1].name: the stack has no name; name the Pulumi stack",
        ),
        (
            "[{name: a, config: [{key: \"\", value: hunter2}]}]",
            "spec.workspaceTemplate.spec.stacks[0].config[0].key: the configuration has no key",
        ),
    ] {
        let stack = stack(&format!(
            "workspaceTemplate: {{spec: {{stacks: {stacks}}}}}"
        ));
        assert_eq!(refused(&stack).to_string(), message);
    }
}

#[test]
fn an_unknown_profile_is_refused() {
    assert_eq!(
        refused(&stack("workspaceTemplate: {spec: {securityProfile: root}}")).to_string(),
        "spec.workspaceTemplate.spec.securityProfile: unknown profile \"root\"; use restricted or baseline"
    );
    assert_eq!(
        pod(&workspace("securityProfile: root"), &options())
            .unwrap_err()
            .to_string(),
        "spec.securityProfile: unknown profile \"root\"; use restricted or baseline"
    );
}

#[test]
fn a_pod_template_with_metadata_alone_is_one() {
    let pod = make_pod(&workspace(
        "podTemplate: {metadata: {labels: {team: platform}}}",
    ));
    assert_eq!(pod.metadata.labels.as_ref().unwrap()["team"], "platform");
    assert_eq!(names(&spec(&pod).containers), ["pulumi"]);
}
