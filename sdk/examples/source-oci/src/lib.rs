//! Where the program of `source: {type: oci, image: ...}` is: a tar.gz layer of an OCI artifact, which the host fetches.

mod challenge;
mod image;

use serde_json::Value;
use sha2::{Digest, Sha256};
use windlass_sdk::{
    Artifact, Credential, Descriptor, ErrorClass, FieldError, Host, HttpRequest, HttpResponse,
    Plugin, PluginError, Resolution, SourceProvider, SourceRequest, Wants,
};

use challenge::Challenge;
use image::Image;

const PASSWORD: &str = "/spec/source/password";
const POLL_SECONDS: u64 = 300;
const ACCEPT: &str = "application/vnd.oci.image.manifest.v1+json, application/vnd.docker.distribution.manifest.v2+json";

/// The plugin.
pub struct Oci;

impl Plugin for Oci {
    fn describe() -> Descriptor {
        Descriptor {
            name: "source-oci".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            summary: "OCI artifacts".into(),
            sources: vec!["oci".into()],
            wants: Wants {
                interfaces: vec!["http".into(), "secrets".into()],
                any_host: true,
                ..Wants::default()
            },
            ..Descriptor::default()
        }
    }
}

impl SourceProvider for Oci {
    fn validate(_: &(impl Host + ?Sized), spec: &Value) -> Vec<FieldError> {
        let error = |field: &str, message: String| FieldError {
            field: field.into(),
            message,
        };
        let source = &spec["source"];
        let mut errors = Vec::new();
        if let Err(message) = Image::of(source) {
            errors.push(error(
                "source.image",
                format!("spec.source.image {message}"),
            ));
        }
        if source["username"].is_string() == source["password"].is_null() {
            let message = "spec.source.password (a reference to a Secret) and username go together";
            errors.push(error("source.password", message.into()));
        }
        errors
    }

    fn resolve(
        host: &(impl Host + ?Sized),
        request: &SourceRequest,
    ) -> Result<Resolution, PluginError> {
        let source = &request.spec["source"];
        let image = Image::of(source)
            .map_err(|message| PluginError::invalid("SourceInvalid", format!("image {message}")))?;
        let login = match source["username"].as_str() {
            Some(username) => Some(Credential::Basic {
                username: host.seal(username.as_bytes()),
                password: host.secret_at(PASSWORD)?,
            }),
            None => None,
        };
        let manifest_url = image.url("manifests", &image.reference);
        let (answer, auth) = get(host, &image, &manifest_url, login)?;
        let digest = format!("sha256:{}", hex::encode(Sha256::digest(&answer.body)));
        if image.is_pinned() && digest != image.reference {
            let message = format!("{image} answers with a manifest of digest {digest}");
            return Err(PluginError::unavailable("DigestMismatch", message));
        }
        let layer = layer(&answer.body, source["mediaType"].as_str())?;
        let pinned = image.is_pinned();
        let seconds = source["pollSeconds"].as_u64().unwrap_or(POLL_SECONDS);
        Ok(Resolution {
            revision: match pinned {
                true => digest,
                false => format!("{}@{digest}", image.reference),
            },
            artifact: Artifact::Archive {
                url: image.url("blobs", &layer),
                digest: layer,
                auth,
            },
            dir: source["dir"].as_str().unwrap_or_default().to_owned(),
            poll_after_ms: (!pinned).then_some(seconds * 1000),
        })
    }
}

/// The manifest, and what the registry takes for this repository.
fn get(
    host: &(impl Host + ?Sized),
    image: &Image,
    url: &str,
    login: Option<Credential>,
) -> Result<(HttpResponse, Option<Credential>), PluginError> {
    let request = HttpRequest {
        method: "GET".into(),
        url: url.into(),
        headers: vec![("accept".into(), ACCEPT.into())],
        body: None,
    };
    let first = host.http_send(&request, None)?;
    if first.status != 401 {
        return fine(image, first).map(|answer| (answer, None));
    }
    let auth = match Challenge::of(&first.headers) {
        Some(Challenge::Basic) => login,
        Some(Challenge::Bearer { url }) => Some(token(host, &url, login.as_ref())?),
        None => None,
    };
    let Some(auth) = auth else {
        return Err(refused(image));
    };
    let answer = host.http_send(&request, Some(&auth))?;
    fine(image, answer).map(|answer| (answer, Some(auth)))
}

/// A token of the registry's own server. It is taken out of the answer before the plugin sees it.
fn token(
    host: &(impl Host + ?Sized),
    url: &str,
    login: Option<&Credential>,
) -> Result<Credential, PluginError> {
    let request = HttpRequest {
        method: "GET".into(),
        url: url.into(),
        ..HttpRequest::default()
    };
    // Either name is in use.
    let (answer, found) = host.http_capture(&request, login, &["/token", "/access_token"])?;
    match (answer.status, found.into_iter().flatten().next()) {
        (200, Some(token)) => Ok(Credential::Bearer { token }),
        (401 | 403, _) => Err(PluginError::new(
            ErrorClass::Denied,
            "CredentialsRefused",
            "the registry's token server refuses the credentials",
        )),
        (status, _) => Err(PluginError::unavailable(
            "NoToken",
            format!("the registry's token server answered {status} without a token"),
        )),
    }
}

fn fine(image: &Image, answer: HttpResponse) -> Result<HttpResponse, PluginError> {
    match answer.status {
        200 => Ok(answer),
        401 | 403 => Err(refused(image)),
        404 => Err(PluginError::new(
            ErrorClass::NotFound,
            "ArtifactMissing",
            format!("there is no {image}"),
        )),
        status => Err(PluginError::unavailable(
            "RegistryUnavailable",
            format!("the registry answered {status} for {image}"),
        )),
    }
}

fn refused(image: &Image) -> PluginError {
    PluginError::new(
        ErrorClass::Denied,
        "CredentialsRefused",
        format!("the registry refuses the credentials for {image}"),
    )
}

/// Digest of the one layer that is a tar.gz, or of the one of `wanted` type.
fn layer(manifest: &[u8], wanted: Option<&str>) -> Result<String, PluginError> {
    let invalid = |message: String| PluginError::invalid("ArtifactInvalid", message);
    let manifest: Value = serde_json::from_slice(manifest)
        .map_err(|error| invalid(format!("the manifest is no JSON: {error}")))?;
    let fits = |layer: &&Value| {
        let kind = layer["mediaType"].as_str().unwrap_or_default();
        wanted.map_or(
            kind.ends_with("tar+gzip") || kind.ends_with("tar.gzip"),
            |wanted| kind == wanted,
        )
    };
    let layers: Vec<&Value> = manifest["layers"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(fits)
        .collect();
    let [only] = layers.as_slice() else {
        return Err(invalid(format!(
            "the artifact has {} tar.gz layers, not one; choose with source.mediaType",
            layers.len()
        )));
    };
    let digest = only["digest"].as_str().unwrap_or_default();
    match digest.strip_prefix("sha256:") {
        Some(_) => Ok(digest.to_owned()),
        None => Err(invalid(format!("layer digest {digest:?} is no sha256"))),
    }
}

windlass_sdk::export_plugin!(Oci: source);
