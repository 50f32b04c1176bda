//! Repositories with gix: over http and https here, over ssh and in place beside it.

use std::num::NonZeroU32;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use gix::protocol::handshake::Ref;
use gix::protocol::transport::client::blocking_io::http as transport;
use gix::remote::{Connection, Direction, fetch};

use super::{export, http, local, redirect, ssh};
use crate::address::Address;
use crate::error::FetchError;
use crate::wire::{RemoteRef, WorkerRequest};

/// More refs than this are not a repository for deploying from.
const MAX_REFS: usize = 100_000;

/// The refs whose names begin with one of the prefixes.
pub(super) fn refs(
    request: &WorkerRequest,
    url: &str,
    prefixes: &[String],
) -> Result<Vec<RemoteRef>, FetchError> {
    let address = http::address(request, url)?;
    let mut found = if address.is_file() {
        local::refs(request, &address)?
    } else if address.ssh().is_some() {
        ssh::refs(request, &address, prefixes)?
    } else {
        with_redirects(request, address, |at| remote_refs(request, at, prefixes))?
    };
    found.retain(|one| {
        prefixes.is_empty() || prefixes.iter().any(|prefix| one.name.starts_with(prefix))
    });
    if found.len() > MAX_REFS {
        let detail = format!("it lists more than {MAX_REFS} refs; ask for fewer by prefix");
        return Err(FetchError::BadAnswer {
            host: "the repository".to_owned(),
            detail,
        });
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

/// Fetches one commit, without history, and exports its tree.
pub(super) fn tree(request: &WorkerRequest, url: &str, commit: &str) -> Result<(), FetchError> {
    let address = http::address(request, url)?;
    let repo = if address.is_file() {
        local::open(request, &address, commit)?
    } else if address.ssh().is_some() {
        ssh::clone_commit(request, &address, commit)?
    } else {
        with_redirects(request, address, |at| clone_commit(request, at, commit))?
    };
    export::tree(request, &repo, commit)
}

/// Tries an address, and again where the server redirects it.
fn with_redirects<T>(
    request: &WorkerRequest,
    mut address: Address,
    mut attempt: impl FnMut(&Address) -> Result<T, FetchError>,
) -> Result<T, FetchError> {
    for _ in 0..redirect::MAX_HOPS {
        match attempt(&address) {
            // A redirect that is not followed has no answer in it that Git understands.
            Err(err @ FetchError::BadAnswer { .. }) => {
                match redirect::of_repository(request, &address)? {
                    Some(next) => address = next,
                    None => return Err(err),
                }
            }
            other => return other,
        }
    }
    Err(FetchError::RedirectRefused {
        host: address.host(),
    })
}

fn open_options(request: &WorkerRequest) -> gix::open::Options {
    // One object may use a quarter of the memory: it is there packed, unpacked and as a delta base.
    let limit = request.limits.memory / 4;
    // The stacks of a thread per core would use up the memory limit on a big machine.
    let overrides = [
        format!("gitoxide.objects.allocLimit={limit}"),
        "pack.threads=2".to_owned(),
    ];
    gix::open::Options::isolated().config_overrides(overrides)
}

fn remote_refs(
    request: &WorkerRequest,
    at: &Address,
    prefixes: &[String],
) -> Result<Vec<RemoteRef>, FetchError> {
    let failed = |err: gix::Error| classify(request, at, None, &err);
    let repo = scratch_repository(request, "refs.git").map_err(failed)?;
    let remote = remote_for(&repo, at, &specs(prefixes)).map_err(failed)?;
    let mut connection = remote.connect(Direction::Fetch).map_err(failed)?;
    ConnectionOptions::new(request, at)?.apply(&mut connection);
    list(connection, !prefixes.is_empty()).map_err(failed)
}

/// An empty repository in the scratch directory.
pub(super) fn scratch_repository(
    request: &WorkerRequest,
    name: &str,
) -> gix::Result<gix::Repository> {
    let dir = request.scratch.join(name);
    std::fs::remove_dir_all(&dir).ok();
    let repo = gix::ThreadSafeRepository::init_opts(
        &dir,
        gix::create::Kind::Bare,
        gix::create::Options::default(),
        open_options(request),
    )?;
    Ok(repo.to_thread_local())
}

/// The repository at an address, as a remote of one in the scratch directory.
pub(super) fn remote_for<'repo>(
    repo: &'repo gix::Repository,
    at: &Address,
    specs: &[String],
) -> gix::Result<gix::Remote<'repo>> {
    let remote = repo
        .remote_at(at.as_str())?
        .with_refspecs(specs.iter().map(String::as_str), Direction::Fetch)?;
    Ok(remote.with_fetch_tags(fetch::Tags::None))
}

/// What the server lists, all of it unless it is asked to filter.
pub(super) fn list<T: gix::protocol::transport::client::blocking_io::Transport>(
    connection: Connection<'_, '_, '_, T>,
    filter: bool,
) -> gix::Result<Vec<RemoteRef>> {
    let options = gix::remote::ref_map::Options {
        prefix_from_spec_as_filter_on_remote: filter,
        ..gix::remote::ref_map::Options::default()
    };
    let (map, _) = connection.ref_map(gix::progress::Discard, options)?;
    Ok(map.remote_refs.iter().filter_map(listed).collect())
}

/// Refspecs that make the server list the names that begin with one of the prefixes.
pub(super) fn specs(prefixes: &[String]) -> Vec<String> {
    if prefixes.is_empty() {
        return vec!["HEAD".to_owned()];
    }
    prefixes
        .iter()
        .enumerate()
        .map(|(i, prefix)| spec(i, prefix))
        .collect()
}

/// A refspec that makes the server list the names that begin with a prefix.
fn spec(index: usize, prefix: &str) -> String {
    if prefix == "HEAD" {
        prefix.to_owned()
    } else {
        format!("{prefix}*:refs/listed/{index}/*")
    }
}

fn listed(one: &Ref) -> Option<RemoteRef> {
    let (name, oid, peeled) = match one {
        Ref::Peeled {
            full_ref_name,
            tag,
            object,
        } => (full_ref_name, tag, Some(object)),
        Ref::Direct {
            full_ref_name,
            object,
        } => (full_ref_name, object, None),
        Ref::Symbolic {
            full_ref_name,
            target: _,
            tag: Some(tag),
            object,
        } => (full_ref_name, tag, Some(object)),
        Ref::Symbolic {
            full_ref_name,
            target: _,
            tag: None,
            object,
        } => (full_ref_name, object, None),
        Ref::Unborn { .. } => return None,
    };
    Some(RemoteRef {
        name: name.to_string(),
        oid: oid.to_string(),
        peeled: peeled.map(ToString::to_string),
    })
}

fn clone_commit(
    request: &WorkerRequest,
    at: &Address,
    commit: &str,
) -> Result<gix::Repository, FetchError> {
    let failed = |err: gix::Error| classify(request, at, Some(commit), &err);
    let dir = request.scratch.join("repo.git");
    std::fs::remove_dir_all(&dir).ok();
    let mut prepare = prepare(request, at, &dir, commit).map_err(failed)?;
    let interrupt = AtomicBool::new(false);
    let (repo, _) = prepare
        .fetch_only(gix::progress::Discard, &interrupt)
        .map_err(failed)?;
    Ok(repo)
}

fn prepare(
    request: &WorkerRequest,
    at: &Address,
    dir: &Path,
    commit: &str,
) -> gix::Result<gix::clone::PrepareFetch> {
    let options = ConnectionOptions::new(request, at).map_err(gix::Error::from_error)?;
    let prepare = gix::clone::PrepareFetch::new(
        at.as_str(),
        dir,
        gix::create::Kind::Bare,
        gix::create::Options::default(),
        open_options(request),
    )?
    .with_revision(Some(commit))?
    .with_shallow(fetch::Shallow::DepthAtRemote(NonZeroU32::MIN))
    .configure_connection(move |connection| {
        options.apply(connection);
        Ok(())
    });
    Ok(prepare)
}

/// How a connection is made: no prompts, no helpers, our trust, the credential in a header.
struct ConnectionOptions {
    headers: Vec<String>,
    settings: http::ClientSettings,
}

impl ConnectionOptions {
    fn new(request: &WorkerRequest, at: &Address) -> Result<Self, FetchError> {
        let mut headers = Vec::new();
        if let Some(credential) = &request.credential {
            let (name, value) = credential.header()?;
            headers.push(format!("{name}: {value}"));
        }
        Ok(ConnectionOptions {
            headers,
            settings: http::ClientSettings::new(request, at)?,
        })
    }

    fn apply<T: gix::protocol::transport::client::blocking_io::Transport>(
        &self,
        connection: &mut Connection<'_, '_, '_, T>,
    ) {
        let settings = self.settings.clone();
        let backend = transport::reqwest::Options {
            configure_client: Some(Box::new(move |builder| Ok(settings.apply(builder)))),
            configure_request: None,
        };
        let options = transport::Options {
            extra_headers: self.headers.clone(),
            follow_redirects: transport::options::FollowRedirects::None,
            backend: Some(Arc::new(Mutex::new(backend))),
            ..transport::Options::default()
        };
        connection.set_transport_options(Box::new(options));
        connection.set_credentials(|_| Ok(None));
    }
}

/// What an error of gix means to a user.
pub(super) fn classify(
    request: &WorkerRequest,
    at: &Address,
    commit: Option<&str>,
    err: &gix::Error,
) -> FetchError {
    let host = at.host();
    if let Some(ours) = err.downcast_any_ref::<FetchError>() {
        return ours.clone();
    }
    let seconds = request.limits.wall.as_secs();
    let with_credential = request.credential.is_some();
    let texts: Vec<String> = err.iter_errors().map(http::chain).collect();
    let has = |needle: &str| texts.iter().any(|text| text.contains(needle));
    let not_found = FetchError::RepositoryNotFound { host: host.clone() };
    if err.is_unauthenticated() {
        return http::status_error(401, &host, with_credential, not_found);
    }
    let status = texts.iter().find_map(|text| {
        let (_, rest) = text.split_once("Received HTTP status ")?;
        rest.get(..3)?.parse::<u16>().ok()
    });
    if let Some(status) = status {
        return http::status_error(status, &host, with_credential, not_found);
    }
    if let Some(commit) = commit
        && (has("not our ref") || has("unadvertised object") || has("didn't have any ref"))
    {
        return FetchError::CommitNotFound {
            host,
            commit: commit.to_owned(),
        };
    }
    if err.is_resource_exhausted() || has("allocation limit") || has("alloc_limit") {
        return FetchError::MemoryExceeded {
            limit: request.limits.memory,
        };
    }
    let client = err
        .iter_errors()
        .find_map(|one| one.downcast_ref::<reqwest::Error>());
    if let Some(client) = client {
        return http::transport_error(&host, &http::chain(client), seconds, client.is_timeout());
    }
    let text = texts.join("; ");
    if has("timed out") {
        return FetchError::TimedOut { host, seconds };
    }
    FetchError::BadAnswer {
        host,
        detail: text.chars().take(600).collect(),
    }
}
