//! Names: of what is mounted, of the Workspace, of the host.

use pretty_assertions::assert_eq;
use windlass_pods::{PodOptions, hostname, pod};

use crate::support::*;

/// What Kubernetes asks of a volume's name.
fn valid_volume_name(name: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    name.len() <= 63
        && name.bytes().all(|b| inner(b) || b == b'-')
        && name.bytes().next().is_some_and(inner)
        && name.bytes().last().is_some_and(inner)
}

#[test]
fn objects_with_any_valid_name_can_be_mounted() {
    let long = format!("{}.{}", "a".repeat(126), "b".repeat(126));
    for name in ["tls.example.com", "a.b", "a-b", &"x".repeat(63), &long] {
        let fields = format!(
            "configRef: {{k: {{name: {name}, key: k}}}}\n\
             secretsRef: {{s: {{type: Secret, secret: {{name: {name}, key: k}}}}}}"
        );
        let pod = pod_of(&fields);
        let pulumi = container(&pod, "pulumi");
        for root in [
            "/var/run/configmaps/stacks.pulumi.com/configmaps",
            "/var/run/secrets/stacks.pulumi.com/secrets",
        ] {
            let mount = pulumi
                .volume_mounts
                .iter()
                .flatten()
                .find(|mount| mount.mount_path == format!("{root}/{name}"))
                .unwrap_or_else(|| panic!("{root}/{name} is not mounted"));
            assert!(valid_volume_name(&mount.name), "{}", mount.name);
            assert!(volumes(spec(&pod)).contains(&mount.name.as_str()));
        }
    }
}

#[test]
fn names_that_differ_in_a_dot_have_volumes_of_their_own() {
    let pod = pod_of(
        "configRef: {k: {name: a.b, key: k}, l: {name: a-b, key: k}, m: {name: a.b.c, key: k}}",
    );
    let mut names = volumes(spec(&pod));
    assert_eq!(names.len(), 5);
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), 5);
}

#[test]
fn a_name_that_no_object_has_is_refused_by_field() {
    for (name, field) in [
        ("../../etc", "spec.configRef.k.name"),
        ("Upper", "spec.configRef.k.name"),
        ("\"\"", "spec.configRef.k.name"),
    ] {
        let error = refused(&stack(&format!(
            "configRef: {{k: {{name: {name}, key: k}}}}"
        )));
        assert!(
            error.to_string().starts_with(&format!("{field}: ")),
            "{error}"
        );
    }
    let long = "a".repeat(254);
    let error = refused(&stack(&format!(
        "secretsRef: {{s: {{type: Secret, secret: {{name: {long}, key: k}}}}}}"
    )));
    assert!(
        error
            .to_string()
            .starts_with("spec.secretsRef.s.secret.name: "),
        "{error}"
    );
}

#[test]
fn a_workspace_name_must_fit_into_a_label() {
    let named = |name: &str| {
        let mut workspace = workspace("");
        workspace.metadata.name = Some(name.to_owned());
        pod(&workspace, &options())
    };
    let fits = "w".repeat(63);
    assert_eq!(
        named(&fits).unwrap().metadata.name,
        Some(format!("{fits}-workspace-0"))
    );
    assert_eq!(
        named("team.shop").unwrap().metadata.name.as_deref(),
        Some("team.shop-workspace-0")
    );
    for name in [
        "w".repeat(64),
        "w".repeat(253),
        "Shop".to_owned(),
        String::new(),
    ] {
        let error = named(&name).unwrap_err().to_string();
        assert!(error.starts_with("metadata.name: "), "{error}");
    }
}

#[test]
fn the_host_name_is_the_one_that_was_given() {
    let template = "podTemplate: {spec: {hostname: mine, subdomain: sub, hostnameOverride: other}}";
    let made = make_pod(&workspace(template));
    assert_eq!(hostname(&made), Some("shop-1a2b3c"));
    let spec = spec(&made);
    assert_eq!((&spec.subdomain, &spec.hostname_override), (&None, &None));
    for name in ["a.b", "", "-a", &"h".repeat(64)] {
        let options = PodOptions {
            hostname: name.to_owned(),
            ..options()
        };
        assert!(pod(&workspace(""), &options).is_err(), "{name:?}");
    }
}

#[test]
fn a_pod_with_the_nodes_host_name_tells_no_incarnation() {
    let made = make_pod(&workspace("podTemplate: {spec: {hostNetwork: true}}"));
    assert_eq!(hostname(&made), None);
}
