//! Repositories on this machine, read in place: no program is started and nothing copied.

use gix::ObjectId;

use super::http;
use crate::address::Address;
use crate::error::FetchError;
use crate::wire::{RemoteRef, WorkerRequest};

/// Opens the repository and checks that it has the commit.
pub(super) fn open(
    request: &WorkerRequest,
    address: &Address,
    commit: &str,
) -> Result<gix::Repository, FetchError> {
    let repo = repository(request, address)?;
    let known = ObjectId::from_hex(commit.as_bytes()).is_ok_and(|id| repo.has_object(id));
    if !known {
        return Err(FetchError::CommitNotFound {
            host: address.host(),
            commit: commit.to_owned(),
        });
    }
    Ok(repo)
}

/// All refs, and HEAD.
pub(super) fn refs(
    request: &WorkerRequest,
    address: &Address,
) -> Result<Vec<RemoteRef>, FetchError> {
    let repo = repository(request, address)?;
    let bad = |err: &(dyn std::error::Error + 'static)| FetchError::BadAnswer {
        host: address.host(),
        detail: http::chain(err),
    };
    let mut found = Vec::new();
    if let Ok(head) = repo.head_id() {
        found.push(RemoteRef {
            name: "HEAD".to_owned(),
            oid: head.to_string(),
            peeled: None,
        });
    }
    let platform = repo.references().map_err(|err| bad(&err))?;
    for reference in platform.all().map_err(|err| bad(&err))? {
        let Ok(mut reference) = reference else {
            continue;
        };
        let name = reference.name().as_bstr().to_string();
        let Ok(id) = reference.follow_to_object() else {
            continue;
        };
        let peeled = reference
            .peel_to_id()
            .ok()
            .filter(|peeled| *peeled != id)
            .map(|peeled| peeled.to_string());
        found.push(RemoteRef {
            name,
            oid: id.to_string(),
            peeled,
        });
    }
    Ok(found)
}

fn repository(request: &WorkerRequest, address: &Address) -> Result<gix::Repository, FetchError> {
    let path = address.local_path()?;
    let limit = request.limits.memory / 4;
    // The address was allowed, whoever owns the files; nothing in its configuration is run.
    let options = gix::open::Options::isolated()
        .with(gix::sec::Trust::Full)
        .config_overrides([format!("gitoxide.objects.allocLimit={limit}")]);
    gix::open_opts(path, options).map_err(|_| FetchError::RepositoryNotFound {
        host: address.host(),
    })
}
