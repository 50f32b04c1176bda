//! A pod's volumes as folders on the host, and keeping those current that come from objects.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use futures::StreamExt as _;
use futures::stream::{BoxStream, select_all};
use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{
    ConfigMap, DownwardAPIVolumeFile, KeyToPath, Pod, Secret, ServiceAccount,
    ServiceAccountTokenProjection, Volume, VolumeProjection,
};
use kube::api::{Api, PostParams};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::watch_object;

use super::atomic_dir::{self, Content, File};
use super::environment::{Data, config_map, secret};
use super::values::{self, Place};

/// What the files of projected volumes may be, if nobody says otherwise.
const MODE: i32 = 0o644;

/// Makes volumes of one pod.
pub struct Volumes<'a> {
    pub client: &'a kube::Client,
    pub pod: &'a Pod,
    pub place: Place,
    /// The folder that holds them, one folder each.
    pub folder: &'a Path,
}

/// A volume that cannot be mounted, in the kubelet's words.
pub struct Unmounted(pub String);

impl Volumes<'_> {
    fn namespace(&self) -> &str {
        self.pod.metadata.namespace.as_deref().unwrap_or_default()
    }

    fn all(&self) -> impl Iterator<Item = &Volume> {
        let spec = self.pod.spec.iter();
        spec.flat_map(|spec| spec.volumes.iter().flatten())
    }

    /// The group that may use the volumes.
    fn group(&self) -> Option<u32> {
        let spec = self.pod.spec.as_ref()?;
        let group = spec.security_context.as_ref()?.fs_group?;
        u32::try_from(group).ok()
    }

    /// Makes every volume, or makes it current. Answers where each is on the host.
    ///
    /// # Errors
    /// The first that cannot be made.
    pub async fn prepare(&self) -> Result<BTreeMap<String, PathBuf>, Unmounted> {
        let mut made = BTreeMap::new();
        for volume in self.all() {
            let path = self.one(volume).await.map_err(|why| {
                let name = &volume.name;
                Unmounted(format!(
                    "MountVolume.SetUp failed for volume {name:?} : {why}"
                ))
            })?;
            made.insert(volume.name.clone(), path);
        }
        Ok(made)
    }

    async fn one(&self, volume: &Volume) -> Result<PathBuf, String> {
        let path = self.folder.join(&volume.name);
        if let Some(host) = &volume.host_path {
            let path = PathBuf::from(&host.path);
            if host.type_.as_deref() == Some("DirectoryOrCreate") {
                std::fs::create_dir_all(&path).map_err(|error| error.to_string())?;
            } else if !path.exists() {
                let kind = host.type_.as_deref().unwrap_or_default();
                return Err(format!(
                    "hostPath type check failed: {} is not a {kind}",
                    host.path
                ));
            }
            return Ok(path);
        }
        if volume.empty_dir.is_some() {
            self.empty(&path).map_err(|error| error.to_string())?;
            return Ok(path);
        }
        let content = self.content(volume).await?;
        atomic_dir::write(&path, &content, self.group()).map_err(|error| error.to_string())?;
        Ok(path)
    }

    fn empty(&self, path: &Path) -> std::io::Result<()> {
        if path.exists() {
            return Ok(());
        }
        std::fs::create_dir_all(path)?;
        atomic_dir::own(path, self.group())?;
        let mode = if self.group().is_some() {
            0o2777
        } else {
            0o777
        };
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
    }

    async fn content(&self, volume: &Volume) -> Result<Content, String> {
        let mut content = Content::new();
        if let Some(source) = &volume.secret {
            let name = source.secret_name.as_deref().unwrap_or_default();
            let data = self.secret(name, source.optional).await?;
            let items = source.items.as_deref();
            add(
                &mut content,
                data,
                items,
                source.default_mode,
                "secret",
                source.optional,
            )?;
        } else if let Some(source) = &volume.config_map {
            let data = self.config_map(&source.name, source.optional).await?;
            let items = source.items.as_deref();
            add(
                &mut content,
                data,
                items,
                source.default_mode,
                "config",
                source.optional,
            )?;
        } else if let Some(source) = &volume.downward_api {
            self.downward(&mut content, source.items.as_deref(), source.default_mode)?;
        } else if let Some(source) = &volume.projected {
            for part in source.sources.iter().flatten() {
                self.projected(&mut content, part, source.default_mode)
                    .await?;
            }
        } else {
            return Err("this kind of volume does not exist on this node".to_owned());
        }
        Ok(content)
    }

    async fn projected(
        &self,
        content: &mut Content,
        part: &VolumeProjection,
        mode: Option<i32>,
    ) -> Result<(), String> {
        if let Some(source) = &part.secret {
            let data = self.secret(&source.name, source.optional).await?;
            let items = source.items.as_deref();
            add(content, data, items, mode, "secret", source.optional)?;
        }
        if let Some(source) = &part.config_map {
            let data = self.config_map(&source.name, source.optional).await?;
            let items = source.items.as_deref();
            add(content, data, items, mode, "config", source.optional)?;
        }
        if let Some(source) = &part.downward_api {
            self.downward(content, source.items.as_deref(), mode)?;
        }
        if let Some(source) = &part.service_account_token {
            let bytes = self.token(source).await?.into_bytes();
            let mode = bits(mode.unwrap_or(MODE));
            content.insert(source.path.clone(), File { bytes, mode });
        }
        Ok(())
    }

    fn downward(
        &self,
        content: &mut Content,
        items: Option<&[DownwardAPIVolumeFile]>,
        mode: Option<i32>,
    ) -> Result<(), String> {
        for item in items.unwrap_or_default() {
            let value = if let Some(reference) = &item.field_ref {
                values::field(self.pod, self.place, reference)?
            } else if let Some(reference) = &item.resource_field_ref {
                values::resource(self.pod, self.place, None, reference)?
            } else {
                continue;
            };
            let file = File {
                bytes: value.into_bytes(),
                mode: bits(item.mode.or(mode).unwrap_or(MODE)),
            };
            content.insert(item.path.clone(), file);
        }
        Ok(())
    }

    async fn token(&self, source: &ServiceAccountTokenProjection) -> Result<String, String> {
        let spec = self.pod.spec.as_ref();
        let account = spec.and_then(|spec| spec.service_account_name.as_deref());
        let account = account.unwrap_or("default");
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), self.namespace());
        let request = TokenRequest {
            spec: Some(TokenRequestSpec {
                audiences: source.audience.clone().map(|audience| vec![audience]),
                expiration_seconds: source.expiration_seconds,
                bound_object_ref: Some(BoundObjectReference {
                    api_version: Some("v1".to_owned()),
                    kind: Some("Pod".to_owned()),
                    name: self.pod.metadata.name.clone(),
                    uid: self.pod.metadata.uid.clone(),
                }),
                ..TokenRequestSpec::default()
            }),
            ..TokenRequest::default()
        };
        let asked = accounts
            .create_token_request(account, &PostParams::default(), &request)
            .await;
        let answer = asked.map_err(|error| format!("failed to fetch token: {error}"))?;
        let token = answer.status.and_then(|status| status.token);
        token.ok_or_else(|| "failed to fetch token: there is none in the answer".to_owned())
    }

    async fn secret(&self, name: &str, optional: Option<bool>) -> Result<Option<Data>, String> {
        let data = secret(self.client, self.namespace(), name).await?;
        if data.is_none() && optional != Some(true) {
            return Err(format!("secret {name:?} not found"));
        }
        Ok(data)
    }

    async fn config_map(&self, name: &str, optional: Option<bool>) -> Result<Option<Data>, String> {
        let data = config_map(self.client, self.namespace(), name).await?;
        if data.is_none() && optional != Some(true) {
            return Err(format!("configmap {name:?} not found"));
        }
        Ok(data)
    }

    /// Yields whenever an object that a volume comes from has changed.
    pub fn changes(&self) -> BoxStream<'static, ()> {
        let mut secrets: Vec<&str> = Vec::new();
        let mut maps: Vec<&str> = Vec::new();
        for volume in self.all() {
            secrets.extend(
                volume
                    .secret
                    .iter()
                    .filter_map(|s| s.secret_name.as_deref()),
            );
            maps.extend(volume.config_map.iter().map(|source| source.name.as_str()));
            let projected = volume.projected.iter();
            for part in projected.flat_map(|source| source.sources.iter().flatten()) {
                secrets.extend(part.secret.iter().map(|source| source.name.as_str()));
                maps.extend(part.config_map.iter().map(|source| source.name.as_str()));
            }
        }
        // The authority's certificate is in every pod and never changes.
        maps.retain(|name| *name != "kube-root-ca.crt");
        for names in [&mut secrets, &mut maps] {
            names.sort_unstable();
            names.dedup();
        }
        let (client, namespace) = (self.client, self.namespace());
        // Without a pause between attempts, a pod that outlives its API server would keep a core busy: each fails at once.
        let mut all: Vec<BoxStream<'static, ()>> = vec![futures::stream::pending().boxed()];
        for name in secrets {
            let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
            all.push(watch_object(api, name).default_backoff().map(drop).boxed());
        }
        for name in maps {
            let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
            all.push(watch_object(api, name).default_backoff().map(drop).boxed());
        }
        select_all(all).boxed()
    }
}

fn add(
    content: &mut Content,
    data: Option<Data>,
    items: Option<&[KeyToPath]>,
    mode: Option<i32>,
    kind: &str,
    optional: Option<bool>,
) -> Result<(), String> {
    let mut data = data.unwrap_or_default();
    let mode = mode.unwrap_or(MODE);
    let Some(items) = items.filter(|items| !items.is_empty()) else {
        let mode = bits(mode);
        content.extend(
            data.into_iter()
                .map(|(key, bytes)| (key, File { bytes, mode })),
        );
        return Ok(());
    };
    for item in items {
        let mode = bits(item.mode.unwrap_or(mode));
        match data.remove(&item.key) {
            Some(bytes) => {
                content.insert(item.path.clone(), File { bytes, mode });
            }
            None if optional == Some(true) => {}
            None => return Err(format!("references non-existent {kind} key: {}", item.key)),
        }
    }
    Ok(())
}

/// Permission bits as the file system has them.
fn bits(mode: i32) -> u32 {
    mode.cast_unsigned() & 0o777
}
