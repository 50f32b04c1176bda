//! A component that misbehaves on demand, and nothing else: what it does is chosen by `mode` in its configuration.
//!
//! The tests are in `tests/`. Natively this library is empty but for the plugin's types.

#![cfg_attr(not(target_arch = "wasm32"), allow(dead_code))]

mod secrets;

use serde_json::Value;
use windlass_sdk::{
    Artifact, Credential, Descriptor, FieldError, File, Host, HttpRequest, Level, ObjectRef,
    Plugin, PluginError, Resolution, SourceProvider, SourceRequest,
};

/// The plugin.
pub struct Evil;

#[cfg(target_arch = "wasm32")]
fn config() -> Value {
    windlass_sdk::guest::GuestHost::default().config()
}

#[cfg(not(target_arch = "wasm32"))]
fn config() -> Value {
    Value::Null
}

impl Plugin for Evil {
    fn describe() -> Descriptor {
        let config = config();
        if config["trial"] == "trap" {
            panic!("no descriptor today");
        }
        if config["trial"] == "loop" {
            spin();
        }
        Descriptor {
            name: text(&config, "name", "evil"),
            version: "6.6.6".into(),
            summary: "misbehaves".into(),
            sources: vec![text(&config, "source", "evil")],
            wants: serde_json::from_value(config["wants"].clone()).unwrap_or_default(),
            ..Descriptor::default()
        }
    }
}

impl SourceProvider for Evil {
    fn validate(_: &(impl Host + ?Sized), _: &Value) -> Vec<FieldError> {
        Vec::new()
    }

    fn resolve(
        host: &(impl Host + ?Sized),
        request: &SourceRequest,
    ) -> Result<Resolution, PluginError> {
        let config = host.config();
        let url = text(&config, "url", "");
        let mode = text(&config, "mode", "");
        if let Some(done) = secrets::run(host, &mode, &config) {
            return done;
        }
        match mode.as_str() {
            "loop" => spin(),
            "memory" => hoard(),
            "memories" => {
                // Small steps: the sum counts, not one request.
                let mut kept: Vec<Vec<u8>> = Vec::new();
                loop {
                    kept.push(vec![1; 1 << 16]);
                    std::hint::black_box(&kept);
                }
            }
            "stack" => {
                std::hint::black_box(deeper(1));
            }
            "log" => loop {
                host.log(Level::Info, "again");
            },
            "print" => loop {
                println!("again and again");
            },
            "result" => {
                let files = vec![File {
                    path: "big".into(),
                    content: vec![0; 20 << 20],
                }];
                return Ok(resolution(Artifact::Files { files }));
            }
            "questions" => loop {
                host.kube_get(&object("v1", "ConfigMap", "again"))?;
            },
            "http" => {
                let auth = match config["secret"].as_str() {
                    Some(pointer) => Some(Credential::Bearer {
                        token: host.secret_at(pointer)?,
                    }),
                    None => None,
                };
                let request = HttpRequest {
                    method: "GET".into(),
                    url,
                    ..HttpRequest::default()
                };
                let response = host.http_send(&request, auth.as_ref())?;
                let revision = format!(
                    "{} {}",
                    response.status,
                    String::from_utf8_lossy(&response.body)
                );
                return Ok(Resolution {
                    revision,
                    ..resolution(Artifact::WorkspacePath {
                        path: String::new(),
                    })
                });
            }
            "post-twice" => {
                let request = HttpRequest {
                    method: "POST".into(),
                    url,
                    ..HttpRequest::default()
                };
                let first = host.http_send(&request, None)?;
                let second = host.http_send(&request, None)?;
                let revision = format!(
                    "{} {}",
                    String::from_utf8_lossy(&first.body),
                    String::from_utf8_lossy(&second.body)
                );
                return Ok(Resolution {
                    revision,
                    ..resolution(Artifact::WorkspacePath {
                        path: String::new(),
                    })
                });
            }
            "kind" => {
                host.kube_get(&object("v1", &text(&config, "kind", ""), "x"))?;
            }
            "secret" => {
                host.secret_at(&text(&config, "pointer", ""))?;
            }
            "secret-key" => {
                host.secret_key_at(&text(&config, "pointer", ""), "password")?;
            }
            "returned-url" => {
                return Ok(resolution(Artifact::Archive {
                    url,
                    digest: "sha256:00".into(),
                    auth: None,
                }));
            }
            "panic" => panic!("as told"),
            "exit" => std::process::exit(3),
            "surroundings" => {
                return Ok(Resolution {
                    revision: surroundings(request),
                    ..resolution(nothing())
                });
            }
            _ => {}
        }
        Ok(resolution(nothing()))
    }
}

/// What a guest can find out beyond its request.
fn surroundings(request: &SourceRequest) -> String {
    let clock = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| {
            u64::try_from(since.as_millis()).unwrap_or_default()
        });
    let slept = std::time::Instant::now();
    std::thread::sleep(std::time::Duration::from_secs(3600));
    let values = std::env::vars().count();
    format!(
        "clock {} waited {} env {values}",
        clock == request.now_ms,
        slept.elapsed().as_secs()
    )
}

fn spin() -> ! {
    let mut number: u64 = 1;
    loop {
        number = std::hint::black_box(
            number
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1),
        );
    }
}

fn hoard() {
    let hoard = vec![1_u8; 1 << 30];
    std::hint::black_box(&hoard);
}

#[inline(never)]
#[allow(unconditional_recursion)]
fn deeper(depth: u64) -> u64 {
    std::hint::black_box(deeper(std::hint::black_box(depth + 1))) + depth
}

fn object(api_version: &str, kind: &str, name: &str) -> ObjectRef {
    ObjectRef {
        api_version: api_version.into(),
        kind: kind.into(),
        name: name.into(),
    }
}

fn nothing() -> Artifact {
    Artifact::WorkspacePath {
        path: String::new(),
    }
}

fn resolution(artifact: Artifact) -> Resolution {
    Resolution {
        revision: "1".into(),
        artifact,
        dir: String::new(),
        poll_after_ms: None,
    }
}

fn text(config: &Value, key: &str, default: &str) -> String {
    config[key].as_str().unwrap_or(default).to_owned()
}

windlass_sdk::export_plugin!(Evil: source);
