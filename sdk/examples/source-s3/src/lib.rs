//! Where the program of `source: {type: s3, ...}` is: a small tar.gz in an S3-compatible bucket.

mod sigv4;

use std::io::Read;

use serde_json::Value;
use sha2::{Digest, Sha256};
use windlass_sdk::{
    Artifact, Descriptor, ErrorClass, FieldError, File, Host, Part, Plugin, PluginError,
    Resolution, SourceProvider, SourceRequest, Wants,
};

use sigv4::Signer;

const SECRET_KEY: &str = "/spec/source/secretAccessKey";
const KEY_ID: &str = "/spec/source/accessKeyId";
const POLL_SECONDS: u64 = 300;

/// The plugin.
pub struct S3;

impl Plugin for S3 {
    fn describe() -> Descriptor {
        Descriptor {
            name: "source-s3".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            summary: "Bundles in S3-compatible buckets".into(),
            sources: vec!["s3".into()],
            wants: Wants {
                interfaces: vec!["http".into(), "secrets".into()],
                any_host: true,
                ..Wants::default()
            },
            ..Descriptor::default()
        }
    }
}

impl SourceProvider for S3 {
    fn validate(_: &(impl Host + ?Sized), spec: &Value) -> Vec<FieldError> {
        let source = &spec["source"];
        let missing = ["endpoint", "region", "bucket", "key"]
            .into_iter()
            .filter(|field| text(source, field).is_empty());
        let mut errors: Vec<FieldError> =
            missing.map(|field| error(field, "must be given")).collect();
        if !text(source, "endpoint").is_empty() && origin(source).is_none() {
            errors.push(error(
                "endpoint",
                "must be https://HOST[:PORT] (or http://), without a path",
            ));
        }
        for field in ["accessKeyId", "secretAccessKey"] {
            if source[field].is_null() {
                errors.push(error(field, "must be given"));
            }
        }
        if source["secretAccessKey"].is_string() {
            errors.push(error("secretAccessKey", "must refer to a Secret"));
        }
        errors
    }

    fn resolve(
        host: &(impl Host + ?Sized),
        request: &SourceRequest,
    ) -> Result<Resolution, PluginError> {
        let source = &request.spec["source"];
        let origin = origin(source)
            .ok_or_else(|| PluginError::invalid("SourceInvalid", "source.endpoint is no origin"))?;
        let secret_access_key = host.secret_at(SECRET_KEY)?;
        // A name, as text or out of a Secret beside its key.
        let kept = match source["accessKeyId"].as_str() {
            Some(_) => None,
            None => Some(host.secret_at(KEY_ID)?),
        };
        let signer = Signer {
            access_key_id: kept
                .as_ref()
                .map_or(Part::Text(text(source, "accessKeyId")), Part::Plain),
            secret_access_key: &secret_access_key,
            region: text(source, "region"),
        };
        let path = format!("/{}/{}", text(source, "bucket"), text(source, "key"));
        let (get, auth) = signer.get(host, origin, &sigv4::encoded(&path), request.now_ms);
        let answer = host.http_send(&get, Some(&auth))?;
        match answer.status {
            200 => {}
            401 | 403 => {
                let message = format!("{origin} refuses the credentials for {path}");
                return Err(PluginError::new(
                    ErrorClass::Denied,
                    "CredentialsRefused",
                    message,
                ));
            }
            404 => {
                let message = format!("{origin} has no object {path}");
                return Err(PluginError::new(
                    ErrorClass::NotFound,
                    "ObjectMissing",
                    message,
                ));
            }
            status => {
                let message = format!("{origin} answered {status} for {path}");
                return Err(PluginError::unavailable("BucketUnavailable", message));
            }
        }
        Ok(Resolution {
            revision: format!("sha256:{}", hex::encode(Sha256::digest(&answer.body))),
            artifact: Artifact::Files {
                files: unpack(&answer.body)?,
            },
            dir: text(source, "dir").to_owned(),
            poll_after_ms: Some(source["pollSeconds"].as_u64().unwrap_or(POLL_SECONDS) * 1000),
        })
    }
}

/// The files of a tar.gz. What is no file and no folder has no place in a program.
fn unpack(bundle: &[u8]) -> Result<Vec<File>, PluginError> {
    let bad = |error: std::io::Error| {
        PluginError::invalid("BundleInvalid", format!("the object is no tar.gz: {error}"))
    };
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(bundle));
    let mut files = Vec::new();
    for entry in archive.entries().map_err(bad)? {
        let mut entry = entry.map_err(bad)?;
        let path = entry.path().map_err(bad)?.to_string_lossy().into_owned();
        match entry.header().entry_type() {
            tar::EntryType::Regular => {}
            tar::EntryType::Directory | tar::EntryType::XGlobalHeader | tar::EntryType::XHeader => {
                continue;
            }
            _ => {
                let message = format!("{path} in the bundle is neither a file nor a folder");
                return Err(PluginError::invalid("BundleInvalid", message));
            }
        }
        let mut content = Vec::new();
        entry.read_to_end(&mut content).map_err(bad)?;
        let path = path.trim_start_matches("./").to_owned();
        files.push(File { path, content });
    }
    Ok(files)
}

/// `https://HOST[:PORT]`.
fn origin(source: &Value) -> Option<&str> {
    let text = text(source, "endpoint").trim_end_matches('/');
    let server = text
        .strip_prefix("https://")
        .or_else(|| text.strip_prefix("http://"))?;
    let fine = !server.is_empty() && !server.contains(['/', '?', '#', '@', ' ']);
    fine.then_some(text)
}

fn text<'a>(source: &'a Value, field: &str) -> &'a str {
    source[field].as_str().unwrap_or_default()
}

fn error(field: &str, what: &str) -> FieldError {
    let field = format!("source.{field}");
    FieldError {
        message: format!("spec.{field} {what}"),
        field,
    }
}

windlass_sdk::export_plugin!(S3: source);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;
    use windlass_sdk::native::Answers;

    #[test]
    fn what_is_wrong_with_a_spec_is_named_by_field() {
        let host = Answers::default();
        let spec = json!({"source": {
            "endpoint": "s3.example.org", "region": "eu", "bucket": "b", "accessKeyId": "AK", "secretAccessKey": "plain",
        }});
        let errors = S3::validate(&host, &spec);
        let fields: Vec<&str> = errors.iter().map(|error| error.field.as_str()).collect();
        assert_eq!(
            fields,
            ["source.key", "source.endpoint", "source.secretAccessKey"]
        );
    }

    #[test]
    fn a_link_in_a_bundle_is_refused() {
        let mut packed = tar::Builder::new(flate2::write::GzEncoder::new(
            Vec::new(),
            flate2::Compression::fast(),
        ));
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::Symlink);
        header.set_size(0);
        packed.append_link(&mut header, "a", "/etc/passwd").unwrap();
        let bundle = packed.into_inner().unwrap().finish().unwrap();
        let PluginError::Fault(fault) = unpack(&bundle).unwrap_err() else {
            panic!("a question")
        };
        assert_eq!(fault.reason, "BundleInvalid");
        assert!(unpack(b"no archive").is_err());
    }
}
