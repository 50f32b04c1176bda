//! The component in the real host, with answers that are made up here.

use windlass_sdk_test::{Component, World, json};

#[test]
fn the_program_is_what_the_config_map_holds() {
    let plugin = Component::build();
    let spec = json!({"stack": "dev", "source": {"type": "@SHORT@", "configMap": "program"}});
    let world = World::new().object(json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "program", "resourceVersion": "7"},
        "data": {"Pulumi.yaml": "name: p\nruntime: yaml\n"},
    }));
    let resolution = plugin.resolve(&world, &spec).unwrap();
    assert_eq!(resolution["revision"], "program@7");
    assert_eq!(resolution["artifact"]["files"][0]["path"], "Pulumi.yaml");
}

#[test]
fn a_missing_config_map_is_said() {
    let plugin = Component::build();
    let spec = json!({"stack": "dev", "source": {"type": "@SHORT@", "configMap": "absent"}});
    let refused = plugin.resolve(&World::new(), &spec).unwrap_err();
    assert_eq!(refused.reason, "ConfigMapMissing");
}

#[test]
fn a_spec_without_a_name_is_refused_natively() {
    use windlass_sdk::SourceProvider;
    let host = windlass_sdk::native::Answers::default();
    let errors = @CRATE@::@TYPE@::validate(&host, &json!({"source": {"type": "@SHORT@"}}));
    assert_eq!(errors[0].field, "source.configMap");
}
