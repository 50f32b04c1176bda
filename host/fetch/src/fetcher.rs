//! The way in: refs, trees and archives, each fetched once.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use crate::access::{Proofs, Reader};
use crate::address::{Address, AddressRules};
use crate::admit;
use crate::child;
use crate::config::{FetchConfig, Unsupported};
use crate::counters::Counters;
use crate::credential::Credential;
use crate::error::{ErrorClass, FetchError};
use crate::join::Joined;
use crate::reach::Reach;
use crate::request::{
    Artifact, FetchStats, RefsRequest, TreeRequest, check_commit, check_prefixes,
};
use crate::slots::Slots;
use crate::store::{GcReport, IndexKey, Store, TreeInfo, TreeReader, TreeWriter, hex_of};
use crate::tree::{self, Entry, Kind};
use crate::wire::{Answer, Operation, RemoteRef, WorkerRequest};

struct Inner {
    config: FetchConfig,
    reach: Reach,
    store: Store,
    /// Key of credential fingerprints.
    key: [u8; 32],
    slots: Slots,
    proofs: Proofs,
    listings: Joined<(Reader, Vec<String>), Arc<Vec<RemoteRef>>>,
    trees: Joined<(Reader, String), TreeInfo>,
    counters: Counters,
}

/// Fetches refs, trees and archives. Clones share everything.
#[derive(Clone)]
pub struct Fetcher {
    inner: Arc<Inner>,
}

impl Fetcher {
    /// Opens the store.
    ///
    /// # Errors
    /// `StoreFailed` when its directory cannot be made or used.
    pub fn new(config: FetchConfig) -> Result<Self, FetchError> {
        let store = Store::open(&config.store_dir)?;
        let mut key = [0; 32];
        fill_random(&mut key)?;
        let reach = Reach {
            loopback: config.allow_loopback,
            denied: config.denied.clone(),
        };
        let inner = Inner {
            reach,
            slots: Slots::new(config.parallel, config.parallel_per_host),
            proofs: Proofs::new(config.access_ttl),
            listings: Joined::default(),
            trees: Joined::default(),
            counters: Counters::default(),
            config,
            store,
            key,
        };
        Ok(Fetcher {
            inner: Arc::new(inner),
        })
    }

    /// The refs of a repository, sorted by name. The same question asked while it
    /// is being answered is one question.
    ///
    /// # Errors
    /// Whatever the address, the credential or the server are wrong with.
    pub async fn refs(&self, request: RefsRequest) -> Result<Arc<Vec<RemoteRef>>, FetchError> {
        let RefsRequest {
            url,
            mut prefixes,
            credential,
        } = request;
        let reader = self.reader(&url, credential.as_ref())?;
        prefixes.sort();
        prefixes.dedup();
        check_prefixes(&prefixes)?;
        let this = self.clone();
        let key = (reader.clone(), prefixes.clone());
        self.inner
            .listings
            .run(key, move || async move {
                this.list(reader, prefixes, credential).await
            })
            .await
    }

    async fn list(
        &self,
        reader: Reader,
        prefixes: Vec<String>,
        credential: Option<Credential>,
    ) -> Result<Arc<Vec<RemoteRef>>, FetchError> {
        let operation = Operation::Refs {
            url: reader.address.as_str().to_owned(),
            prefixes,
        };
        let asked = self.ask(&reader, operation, credential, |_| Ok(())).await;
        self.inner.counters.listed(&asked);
        match self.note_access(&reader, asked)? {
            (Answer::Refs(refs), ()) => Ok(Arc::new(refs)),
            _ => Err(unexpected()),
        }
    }

    /// The tree of an artifact, stored and held by a lease. Fetched only if it is
    /// not stored; served from the store only to a credential that can read the place.
    ///
    /// # Errors
    /// Whatever the address, the credential, the server or the content are wrong with.
    pub async fn fetch(&self, request: TreeRequest) -> Result<TreeInfo, FetchError> {
        let TreeRequest {
            artifact,
            credential,
        } = request;
        let (operation, index) = match artifact {
            Artifact::Files(files) => return self.store_files(files).await,
            Artifact::GitTree { url, commit } => {
                check_commit(&commit)?;
                let url = self
                    .reader(&url, credential.as_ref())?
                    .address
                    .as_str()
                    .to_owned();
                let index = IndexKey::new(self.index_kind(), &url, &commit);
                (Operation::Tree { url, commit }, index)
            }
            Artifact::Archive { url, digest } => {
                hex_of(&digest)?;
                let url = self
                    .reader(&url, credential.as_ref())?
                    .address
                    .as_str()
                    .to_owned();
                let index = IndexKey::new("archive", &url, &digest);
                (Operation::Archive { url, digest }, index)
            }
        };
        let url = operation.url().unwrap_or_default().to_owned();
        let reader = self.reader(&url, credential.as_ref())?;
        let this = self.clone();
        let key = (reader.clone(), index.as_str().to_owned());
        let work = move || async move { this.serve(reader, operation, index, credential).await };
        self.inner.trees.run(key, work).await
    }

    /// The same commit makes another tree where something is left out of it.
    fn index_kind(&self) -> &'static str {
        match self.inner.config.unsupported {
            Unsupported::Refuse => "git",
            Unsupported::LeaveOut => "git-partial",
        }
    }

    async fn serve(
        &self,
        reader: Reader,
        operation: Operation,
        index: IndexKey,
        credential: Option<Credential>,
    ) -> Result<TreeInfo, FetchError> {
        let found = {
            let index = index.clone();
            self.in_store(move |store, _| store.lookup(&index)).await?
        };
        if let Some(info) = found {
            if !self.inner.proofs.holds(&reader) {
                self.prove(&reader, &operation, credential).await?;
            }
            self.inner.counters.hit();
            return Ok(info);
        }
        let admit = move |this: &Inner, scratch: &std::path::Path| {
            let info = admit::exported(&this.store, &this.config.limits, scratch)?;
            this.store.remember(&index, &info.digest)?;
            Ok(info)
        };
        let this = Arc::clone(&self.inner);
        let asked = self
            .ask(&reader, operation, credential, move |scratch| {
                admit(&this, scratch)
            })
            .await;
        let fetched = asked.as_ref().map(|(_, info)| info.bytes);
        self.inner.counters.fetched(fetched);
        match self.note_access(&reader, asked)? {
            (Answer::Exported, info) => Ok(info),
            _ => Err(unexpected()),
        }
    }

    /// Has the server say whether this credential may read the place.
    async fn prove(
        &self,
        reader: &Reader,
        operation: &Operation,
        credential: Option<Credential>,
    ) -> Result<(), FetchError> {
        let url = reader.address.as_str().to_owned();
        if let Operation::Archive { .. } = operation {
            let asked = self
                .ask(
                    reader,
                    Operation::ArchiveReadable { url },
                    credential,
                    |_| Ok(()),
                )
                .await;
            return self.note_access(reader, asked).map(|_| ());
        }
        let prefixes = vec!["HEAD".to_owned()];
        self.refs(RefsRequest {
            url,
            prefixes,
            credential,
        })
        .await
        .map(|_| ())
    }

    /// Files given by the caller as a tree.
    async fn store_files(&self, files: BTreeMap<String, Vec<u8>>) -> Result<TreeInfo, FetchError> {
        self.in_store(move |store, limits| {
            let mut files: Vec<_> = files.into_iter().collect();
            files.sort_by(|a, b| tree::order(&a.0, &b.0));
            let mut writer = TreeWriter::new(store, limits)?;
            for (path, bytes) in files {
                writer.add(&path, Kind::File, bytes.len() as u64, &mut bytes.as_slice())?;
            }
            writer.finish()
        })
        .await
    }

    /// Runs a child process, and then `take` on its scratch directory.
    async fn ask<T: Send + 'static>(
        &self,
        reader: &Reader,
        operation: Operation,
        credential: Option<Credential>,
        take: impl FnOnce(&std::path::Path) -> Result<T, FetchError> + Send + 'static,
    ) -> Result<(Answer, T), FetchError> {
        let host = reader.address.host();
        let _slot = self.inner.slots.take(&host).await?;
        let scratch = self.in_store(|store, _| store.scratch()).await?;
        let config = &self.inner.config;
        let request = WorkerRequest {
            operation,
            credential,
            limits: config.limits.clone(),
            extra_ca_pem: config.extra_ca_pem.clone(),
            proxy: config.proxy.clone(),
            unsupported: config.unsupported,
            allow_file: config.allow_file_urls,
            reach: self.inner.reach.clone(),
            ssh: reader.address.ssh().map(|_| config.ssh.settings()),
            scratch: scratch.path().to_owned(),
        };
        let outcome = child::run(&config.worker, &request, &host).await;
        drop(request);
        self.inner.counters.child(outcome.peak_rss);
        if let Some(gap) = outcome.sandbox_gap
            && self.inner.counters.sandbox_gap.set(gap.clone()).is_ok()
        {
            tracing::warn!("{gap}");
        }
        let result = outcome.result;
        self.in_store(move |_, _| {
            let answer = result?;
            let taken = take(scratch.path())?;
            Ok((answer, taken))
        })
        .await
    }

    fn note_access<T>(
        &self,
        reader: &Reader,
        asked: Result<T, FetchError>,
    ) -> Result<T, FetchError> {
        match &asked {
            Ok(_) => self.inner.proofs.record(reader.clone()),
            Err(err) if matches!(err.class(), ErrorClass::Denied) => {
                self.inner.proofs.revoke(reader)
            }
            Err(_) => {}
        }
        asked
    }

    /// The digest that a directory of a stored tree has as a tree of its own:
    /// equal for equal content, wherever it lies.
    ///
    /// # Errors
    /// `TreeNotStored`, `DirectoryNotFound`.
    pub async fn subtree_digest(&self, digest: &str, dir: &str) -> Result<String, FetchError> {
        let (digest, dir) = (digest.to_owned(), dir.to_owned());
        self.in_store(move |store, _| store.subtree_digest(&digest, &dir))
            .await
    }

    /// The deterministic tar stream of a stored tree, or of one of its directories
    /// as root. Its SHA-256 is the tree's digest, or the directory's. Reading blocks.
    ///
    /// # Errors
    /// `TreeNotStored`, `DirectoryNotFound`.
    pub async fn open(&self, digest: &str, dir: Option<&str>) -> Result<TreeReader, FetchError> {
        let (digest, dir) = (digest.to_owned(), dir.map(ToOwned::to_owned));
        self.in_store(move |store, _| store.read(&digest, dir.as_deref()))
            .await
    }

    /// The entries of a stored tree, in order.
    ///
    /// # Errors
    /// `TreeNotStored`.
    pub async fn entries(&self, digest: &str) -> Result<Vec<Entry>, FetchError> {
        let digest = digest.to_owned();
        self.in_store(move |store, _| store.entries(&digest)).await
    }

    /// A stored tree, held by a lease; `None` if it was collected.
    ///
    /// # Errors
    /// `StoreFailed`, `DigestInvalid`.
    pub async fn stored(&self, digest: &str) -> Result<Option<TreeInfo>, FetchError> {
        let digest = digest.to_owned();
        self.in_store(move |store, _| store.get(&digest)).await
    }

    /// Removes trees that are not in `keep`, not held by a lease, and unused for `grace`.
    ///
    /// # Errors
    /// `StoreFailed`.
    pub async fn gc(&self, keep: HashSet<String>, grace: Duration) -> Result<GcReport, FetchError> {
        self.in_store(move |store, _| store.gc(&keep, grace)).await
    }

    /// Tries from inside the sandbox what it must refuse.
    ///
    /// # Errors
    /// When the child process fails.
    #[cfg(feature = "test-probe")]
    pub async fn probe(&self, probe: crate::Probe) -> Result<BTreeMap<String, String>, FetchError> {
        let url = if probe.ssh {
            "ssh://probe.invalid/x"
        } else {
            "https://probe.invalid/"
        };
        let reader = self.reader(url, None)?;
        match self
            .ask(&reader, Operation::Probe(probe), None, |_| Ok(()))
            .await?
        {
            (Answer::Probed(found), ()) => Ok(found),
            _ => Err(unexpected()),
        }
    }

    /// What the kernel does not enforce of the child's sandbox, if anything; known
    /// after the first request to a server.
    pub fn sandbox_gap(&self) -> Option<&str> {
        self.inner.counters.sandbox_gap.get().map(String::as_str)
    }

    /// What was done so far.
    pub fn stats(&self) -> FetchStats {
        self.inner.counters.read()
    }

    pub(crate) fn polled(&self, succeeded: bool) {
        self.inner.counters.polled(succeeded);
    }

    /// A repository as this credential sees it; checks the address.
    pub(crate) fn reader(
        &self,
        url: &str,
        credential: Option<&Credential>,
    ) -> Result<Reader, FetchError> {
        let rules = AddressRules {
            allow_file: self.inner.config.allow_file_urls,
            reach: &self.inner.reach,
        };
        let address = Address::parse(url, rules, credential.is_some())?;
        if let Some(credential) = credential {
            credential.check(address.ssh().is_some())?;
        }
        Ok(Reader {
            address,
            credential: Credential::fingerprint(credential, &self.inner.key),
        })
    }

    /// Does work on files off the asynchronous threads.
    async fn in_store<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Store, &crate::config::Limits) -> Result<T, FetchError> + Send + 'static,
    ) -> Result<T, FetchError> {
        let inner = Arc::clone(&self.inner);
        tokio::task::spawn_blocking(move || work(&inner.store, &inner.config.limits))
            .await
            .unwrap_or_else(|err| {
                Err(FetchError::StoreFailed {
                    detail: format!("a task failed: {err}"),
                })
            })
    }
}

fn unexpected() -> FetchError {
    FetchError::WorkerFailed {
        detail: "it answered something else".to_owned(),
    }
}

fn fill_random(key: &mut [u8; 32]) -> Result<(), FetchError> {
    use std::io::Read as _;
    std::fs::File::open("/dev/urandom")
        .and_then(|mut file| file.read_exact(key))
        .map_err(|err| FetchError::store("no random numbers", &err))
}
