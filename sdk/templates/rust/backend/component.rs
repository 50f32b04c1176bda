//! The component in the real host.

use windlass_sdk_test::{Component, World, json};

#[test]
fn names_follow_the_rule() {
    let plugin = Component::build();
    let spec = |stack: &str| json!({"stack": stack, "backend": "@SHORT@://states", "programRef": {"name": "p"}});
    let session = plugin.open(&World::new(), &spec("shop/web-prod")).unwrap();
    assert_eq!(session["stack"], "organization/shop/web-prod");
    assert_eq!(session["env"]["PULUMI_BACKEND_URL"], "s3://states");
    let refused = plugin.open(&World::new(), &spec("prod")).unwrap_err();
    assert_eq!(refused.reason, "StackNameInvalid");
}
