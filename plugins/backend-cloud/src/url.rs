//! The URL of a service: what it must look like, and where its console is.

use windlass_sdk::PluginError;

/// `http` is for self-hosted services in one's own network.
pub const SCHEMES: [&str; 2] = ["https", "http"];

/// Pulumi Cloud's own, where the CLI keeps state if nobody says otherwise.
const PULUMI: &str = "api.pulumi.com";

/// A service's URL, checked.
#[derive(Debug)]
pub struct Url<'a> {
    scheme: &'a str,
    /// Host and port.
    authority: &'a str,
    /// Without a slash at its end.
    whole: &'a str,
}

impl<'a> Url<'a> {
    /// # Errors
    /// `invalid` `BackendInvalid`. Messages never repeat the URL, which may hold a password.
    pub fn parse(text: &'a str) -> Result<Self, PluginError> {
        let (scheme, rest) = text
            .split_once("://")
            .filter(|(scheme, _)| SCHEMES.contains(scheme))
            .ok_or_else(|| invalid("the URL of a service begins with https:// or http://"))?;
        if text
            .chars()
            .any(|character| character.is_whitespace() || character.is_control())
        {
            return Err(invalid("the URL holds white space"));
        }
        if rest.contains(['?', '#']) {
            return Err(invalid("the URL of a service has no query and no fragment"));
        }
        let authority = rest.split('/').next().unwrap_or_default();
        if authority.contains('@') {
            return Err(invalid(
                "the URL holds a user or a password: name a Secret in spec.accessTokenSecret instead",
            ));
        }
        let (host, port) = match authority.rsplit_once(':') {
            // An address in brackets has colons of its own.
            Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
            _ => (authority, None),
        };
        if host.is_empty() {
            return Err(invalid("the URL names no host"));
        }
        if port.is_some_and(|port| port.parse::<u16>().is_err()) {
            return Err(invalid("the port in the URL is no port"));
        }
        if host.eq_ignore_ascii_case("app.pulumi.com") {
            return Err(invalid(
                "app.pulumi.com is the console: use https://api.pulumi.com, or leave spec.backend away",
            ));
        }
        Ok(Url {
            scheme,
            authority,
            whole: text.trim_end_matches('/'),
        })
    }

    /// The URL as it was written, without a slash at its end.
    pub fn as_str(&self) -> &str {
        self.whole
    }

    pub fn is_https(&self) -> bool {
        self.scheme == "https"
    }

    /// A name for texts.
    pub fn shown(&self) -> String {
        if self.authority == PULUMI {
            format!("Pulumi Cloud ({})", self.whole)
        } else {
            format!("the service at {}", self.whole)
        }
    }

    /// The console's origin, by the CLI's rule. A service under any other name has none that could be guessed.
    pub fn console(&self) -> Option<String> {
        let host = match self.authority {
            "localhost:8080" => "localhost:3000".to_owned(),
            authority => format!("app.{}", authority.strip_prefix("api.")?),
        };
        Some(format!("{}://{host}", self.scheme))
    }
}

fn invalid(message: &str) -> PluginError {
    PluginError::invalid("BackendInvalid", format!("backend: {message}"))
}
