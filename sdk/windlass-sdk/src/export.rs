//! The one line that makes a component of a type.

/// Exports a plugin: `export_plugin!(MyType: source);`, `: backend` or `: health`.
///
/// Natively it expands to nothing, so that `cargo test` links.
#[macro_export]
macro_rules! export_plugin {
    ($plugin:ty : source) => {
        #[cfg(target_arch = "wasm32")]
        #[allow(unsafe_code)]
        mod windlass_plugin_export {
            use super::*;
            use $crate::guest::{self, GuestHost};
            use $crate::guest::imports::windlass::plugin::types;
            use $crate::guest::source::exports::windlass::plugin as wit;

            struct Component;

            impl $crate::guest::describe_export::exports::windlass::plugin::plugin::Guest for Component {
                fn describe() -> String {
                    guest::describe(&<$plugin as $crate::Plugin>::describe())
                }
            }

            impl wit::source_provider::Guest for Component {
                fn validate(spec: String) -> Vec<types::FieldError> {
                    let spec = guest::json(&spec);
                    guest::field_errors(<$plugin as $crate::SourceProvider>::validate(&GuestHost::default(), &spec))
                }

                fn watches(spec: String) -> Vec<types::ObjectRef> {
                    let spec = guest::json(&spec);
                    guest::object_refs(<$plugin as $crate::SourceProvider>::watches(&GuestHost::default(), &spec))
                }

                fn resolve(request: String) -> Result<wit::source_provider::Resolution, types::Error> {
                    let request = guest::parse(&request)?;
                    <$plugin as $crate::SourceProvider>::resolve(&GuestHost::default(), &request)
                        .map(guest::resolution)
                        .map_err(guest::fault)
                }
            }

            $crate::guest::describe_export::export_describe_export_world!(
                Component with_types_in $crate::guest::describe_export
            );
            $crate::guest::source::export_source_world!(Component with_types_in $crate::guest::source);
        }
    };
    ($plugin:ty : backend) => {
        #[cfg(target_arch = "wasm32")]
        #[allow(unsafe_code)]
        mod windlass_plugin_export {
            use super::*;
            use $crate::guest::{self, GuestHost};
            use $crate::guest::imports::windlass::plugin::types;
            use $crate::guest::backend::exports::windlass::plugin as wit;

            struct Component;

            impl $crate::guest::describe_export::exports::windlass::plugin::plugin::Guest for Component {
                fn describe() -> String {
                    guest::describe(&<$plugin as $crate::Plugin>::describe())
                }
            }

            impl wit::backend::Guest for Component {
                fn open(request: String) -> Result<String, types::Error> {
                    let request = guest::parse(&request)?;
                    let session = <$plugin as $crate::Backend>::open(&GuestHost::default(), &request)
                        .map_err(guest::fault)?;
                    guest::print(&session)
                }

                fn classify(outcome: String) -> wit::backend::Failure {
                    let outcome = guest::parse(&outcome).unwrap_or_default();
                    guest::failure(<$plugin as $crate::Backend>::classify(&GuestHost::default(), &outcome))
                }

                fn stale_lock(locks: String, holders: String) -> wit::backend::LockVerdict {
                    let (Ok(locks), Ok(holders)) = (
                        guest::parse::<Vec<$crate::ReportedLock>>(&locks),
                        guest::parse::<Vec<$crate::LockHolder>>(&holders),
                    ) else {
                        return wit::backend::LockVerdict::Keep;
                    };
                    let verdict = <$plugin as $crate::Backend>::stale_lock(&GuestHost::default(), &locks, &holders);
                    guest::lock_verdict(verdict)
                }
            }

            $crate::guest::describe_export::export_describe_export_world!(
                Component with_types_in $crate::guest::describe_export
            );
            $crate::guest::backend::export_backend_world!(Component with_types_in $crate::guest::backend);
        }
    };
    ($plugin:ty : health) => {
        #[cfg(target_arch = "wasm32")]
        #[allow(unsafe_code)]
        mod windlass_plugin_export {
            use super::*;
            use $crate::guest::{self, GuestHost};
            use $crate::guest::health_check::exports::windlass::plugin as wit;

            struct Component;

            impl $crate::guest::describe_export::exports::windlass::plugin::plugin::Guest for Component {
                fn describe() -> String {
                    guest::describe(&<$plugin as $crate::Plugin>::describe())
                }
            }

            impl wit::health_check::Guest for Component {
                fn assess(object: String, context: String) -> wit::health_check::Health {
                    let verdict = <$plugin as $crate::HealthCheck>::assess(&GuestHost::default(), &object, &context);
                    guest::health(verdict)
                }
            }

            $crate::guest::describe_export::export_describe_export_world!(
                Component with_types_in $crate::guest::describe_export
            );
            $crate::guest::health_check::export_health_check_world!(Component with_types_in $crate::guest::health_check);
        }
    };
}
