//! The component side: bindings to `wit/` and the conversions between them and the SDK's types.
//!
//! Nothing here is for plugin authors; [`crate::export_plugin!`] uses it. Each exported interface has a world of its
//! own here, so that a component exports what it has and no more; the linker merges them.

mod convert;
mod host;

pub use convert::{
    describe, failure, fault, field_errors, health, json, lock_verdict, object_refs, parse, print,
    resolution,
};
pub use host::GuestHost;

/// What the host offers.
#[allow(unsafe_code, clippy::all)]
pub mod imports {
    wit_bindgen::generate!({ path: "../../wit", world: "imports", generate_all });
}

/// Every plugin.
#[allow(unsafe_code, clippy::all)]
pub mod describe_export {
    wit_bindgen::generate!({
        path: "../../wit",
        inline: "package windlass:sdk; world describe { export windlass:plugin/plugin@0.1.0; }",
        world: "windlass:sdk/describe",
        with: {
            "windlass:plugin/types@0.1.0": crate::guest::imports::windlass::plugin::types,
        },
        pub_export_macro: true,
        export_macro_name: "export_describe_export_world",
        default_bindings_module: "windlass_sdk::guest::describe_export",
    });
}

/// Exports of a source provider.
#[allow(unsafe_code, clippy::all)]
pub mod source {
    wit_bindgen::generate!({
        path: "../../wit",
        inline: "package windlass:sdk; world source { export windlass:plugin/source-provider@0.1.0; }",
        world: "windlass:sdk/source",
        with: {
            "windlass:plugin/types@0.1.0": crate::guest::imports::windlass::plugin::types,
            "windlass:plugin/credentials@0.1.0": crate::guest::imports::windlass::plugin::credentials,
        },
        pub_export_macro: true,
        export_macro_name: "export_source_world",
        default_bindings_module: "windlass_sdk::guest::source",
    });
}

/// Exports of a backend adapter.
#[allow(unsafe_code, clippy::all)]
pub mod backend {
    wit_bindgen::generate!({
        path: "../../wit",
        inline: "package windlass:sdk; world backend { export windlass:plugin/backend@0.1.0; }",
        world: "windlass:sdk/backend",
        with: {
            "windlass:plugin/types@0.1.0": crate::guest::imports::windlass::plugin::types,
        },
        pub_export_macro: true,
        export_macro_name: "export_backend_world",
        default_bindings_module: "windlass_sdk::guest::backend",
    });
}

/// Exports of a health check.
#[allow(unsafe_code, clippy::all)]
pub mod health_check {
    wit_bindgen::generate!({
        path: "../../wit",
        inline: "package windlass:sdk; world health { export windlass:plugin/health-check@0.1.0; }",
        world: "windlass:sdk/health",
        with: {
            "windlass:plugin/types@0.1.0": crate::guest::imports::windlass::plugin::types,
        },
        pub_export_macro: true,
        export_macro_name: "export_health_check_world",
        default_bindings_module: "windlass_sdk::guest::health_check",
    });
}
