//! What a backend URL of each scheme must look like.

use windlass_sdk::PluginError;

/// The schemes that the CLI's self-managed backends have.
pub const SCHEMES: [&str; 5] = ["file", "s3", "gs", "azblob", "postgres"];

/// # Errors
/// `invalid` `BackendInvalid`. Messages never repeat the URL, which may hold a password.
pub fn check(url: &str) -> Result<(), PluginError> {
    let Some((scheme, rest)) = url.split_once("://") else {
        return Err(invalid("the backend URL has no scheme"));
    };
    let rest = rest.split(['?', '#']).next().unwrap_or_default();
    if url
        .chars()
        .any(|character| character.is_whitespace() || character.is_control())
    {
        return Err(invalid("the backend URL holds white space"));
    }
    match scheme {
        "file" => directory(rest),
        "s3" | "gs" => bucket(scheme, rest),
        "azblob" => container(rest),
        "postgres" => database(rest),
        other => Err(invalid(&format!("unknown backend scheme {other:?}"))),
    }
}

fn directory(path: &str) -> Result<(), PluginError> {
    let absolute = path.starts_with('/') || path == "~" || path.starts_with("~/");
    if !absolute {
        return Err(invalid(
            "the directory of a file backend must be absolute (file:///dir or file://~)",
        ));
    }
    Ok(())
}

fn bucket(scheme: &str, rest: &str) -> Result<(), PluginError> {
    let name = name_in(scheme, rest)?;
    let longest = if scheme == "gs" { 222 } else { 63 };
    let ends = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let allowed = |byte: u8| {
        byte.is_ascii_lowercase()
            || byte.is_ascii_digit()
            || matches!(byte, b'-' | b'.')
            || (scheme == "gs" && byte == b'_')
    };
    let bytes = name.as_bytes();
    if !(3..=longest).contains(&bytes.len())
        || !bytes.iter().copied().all(allowed)
        || !ends(bytes.first())
        || !ends(bytes.last())
    {
        return Err(invalid(&format!("{name:?} is no {scheme} bucket name")));
    }
    Ok(())
}

/// The part of the URL that names a bucket or container.
fn name_in<'a>(scheme: &str, rest: &'a str) -> Result<&'a str, PluginError> {
    let name = rest.split('/').next().unwrap_or_default();
    if name.contains('@') {
        return Err(invalid(&format!(
            "the {scheme} URL names a user; credentials belong into the environment (envRefs)"
        )));
    }
    Ok(name)
}

fn container(rest: &str) -> Result<(), PluginError> {
    let name = name_in("azblob", rest)?;
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let special = matches!(name, "$root" | "$web");
    let good = (3..=63).contains(&name.len())
        && name.bytes().all(allowed)
        && !name.starts_with('-')
        && !name.ends_with('-')
        && !name.contains("--");
    if special || good {
        Ok(())
    } else {
        Err(invalid(&format!("{name:?} is no azblob container name")))
    }
}

fn database(rest: &str) -> Result<(), PluginError> {
    let authority = rest.split('/').next().unwrap_or_default();
    let server = authority
        .rsplit_once('@')
        .map_or(authority, |(_, server)| server);
    let (host, port) = match server.rsplit_once(':') {
        // An address in brackets has colons of its own.
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (server, None),
    };
    if host.is_empty() {
        return Err(invalid("the postgres URL names no host"));
    }
    if port.is_some_and(|port| port.parse::<u16>().is_err()) {
        return Err(invalid("the port of the postgres URL is no port"));
    }
    Ok(())
}

fn invalid(message: &str) -> PluginError {
    PluginError::invalid("BackendInvalid", format!("backend: {message}"))
}
