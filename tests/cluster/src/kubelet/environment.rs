//! A container's environment, command and user, as the kubelet works them out.

use std::collections::{BTreeMap, HashMap};

use k8s_openapi::api::core::v1::{ConfigMap, Container, EnvVar, Pod, Secret};
use kube::api::Api;

use super::image::Image;
use super::values::{self, Place};
use crate::launch::Process;

/// What a container's environment is worked out from.
pub struct Sources<'a> {
    pub client: &'a kube::Client,
    pub pod: &'a Pod,
    pub place: Place,
    /// The API server's port on 127.0.0.1.
    pub api_port: u16,
    pub hostname: &'a str,
}

type Failure = String;

impl Sources<'_> {
    fn namespace(&self) -> &str {
        self.pod.metadata.namespace.as_deref().unwrap_or_default()
    }

    /// Program, environment and user of `container`.
    ///
    /// # Errors
    /// The message of `CreateContainerConfigError`.
    pub async fn process(&self, container: &Container, image: &Image) -> Result<Process, Failure> {
        let (uid, gid, groups) = self.user(container, image)?;
        let home = match uid {
            0 => "/root",
            1000 => "/home/pulumi",
            _ => "/",
        };
        let mut env = image.env.clone();
        env.push(("HOSTNAME".to_owned(), self.hostname.to_owned()));
        env.push(("HOME".to_owned(), home.to_owned()));
        env.extend(self.service_variables());
        self.take_sources(container, &mut env).await?;
        for variable in container.env.iter().flatten() {
            if let Some(value) = self.variable(container, variable, &env).await? {
                env.push((variable.name.clone(), value));
            }
        }
        // Of several with one name the last holds.
        let last: HashMap<_, _> = env
            .iter()
            .enumerate()
            .map(|(at, (name, _))| (name.clone(), at))
            .collect();
        let mut at = 0;
        env.retain(|(name, _)| {
            at += 1;
            last.get(name) == Some(&(at - 1))
        });
        let expand = |parts: &[String]| -> Vec<String> {
            let find = |name: &str| find(&env, name);
            parts
                .iter()
                .map(|part| values::expand(part, find))
                .collect()
        };
        let (command, arguments) = (container.command.as_deref(), container.args.as_deref());
        let argv = match (command, arguments) {
            (Some(command), arguments) if !command.is_empty() => {
                [expand(command), expand(arguments.unwrap_or_default())].concat()
            }
            (_, Some(arguments)) if !arguments.is_empty() => {
                [image.entrypoint.clone(), expand(arguments)].concat()
            }
            _ => [image.entrypoint.clone(), image.command.clone()].concat(),
        };
        let stated = container.working_dir.clone().filter(|dir| !dir.is_empty());
        let cwd = stated.map(Into::into).or(image.working_dir.clone());
        Ok(Process {
            argv,
            env,
            cwd: cwd.unwrap_or_else(|| "/".into()),
            uid,
            gid,
            groups,
        })
    }

    /// What finds the API server, as for every Service that there is.
    fn service_variables(&self) -> Vec<(String, String)> {
        let port = self.api_port;
        let url = format!("tcp://127.0.0.1:{port}");
        [
            ("KUBERNETES_SERVICE_HOST", "127.0.0.1".to_owned()),
            ("KUBERNETES_SERVICE_PORT", port.to_string()),
            ("KUBERNETES_SERVICE_PORT_HTTPS", port.to_string()),
            ("KUBERNETES_PORT", url),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }

    async fn take_sources(
        &self,
        container: &Container,
        env: &mut Vec<(String, String)>,
    ) -> Result<(), Failure> {
        for source in container.env_from.iter().flatten() {
            let prefix = source.prefix.as_deref().unwrap_or_default();
            let values = if let Some(reference) = &source.secret_ref {
                self.secret(&reference.name, reference.optional).await?
            } else if let Some(reference) = &source.config_map_ref {
                self.config_map(&reference.name, reference.optional).await?
            } else {
                None
            };
            for (name, value) in values.into_iter().flatten() {
                env.push((format!("{prefix}{name}"), text(value)));
            }
        }
        Ok(())
    }

    async fn variable(
        &self,
        container: &Container,
        variable: &EnvVar,
        before: &[(String, String)],
    ) -> Result<Option<String>, Failure> {
        let Some(source) = &variable.value_from else {
            let value = variable.value.as_deref().unwrap_or_default();
            return Ok(Some(values::expand(value, |name| find(before, name))));
        };
        if let Some(reference) = &source.field_ref {
            return values::field(self.pod, self.place, reference).map(Some);
        }
        if let Some(reference) = &source.resource_field_ref {
            return values::resource(self.pod, self.place, Some(container), reference).map(Some);
        }
        let (values, kind, name, key, optional) = if let Some(reference) = &source.secret_key_ref {
            let values = self.secret(&reference.name, reference.optional).await?;
            (
                values,
                "Secret",
                &reference.name,
                &reference.key,
                reference.optional,
            )
        } else if let Some(reference) = &source.config_map_key_ref {
            let values = self.config_map(&reference.name, reference.optional).await?;
            (
                values,
                "ConfigMap",
                &reference.name,
                &reference.key,
                reference.optional,
            )
        } else {
            return Ok(None);
        };
        match values.and_then(|mut values| values.remove(key)) {
            Some(value) => Ok(Some(text(value))),
            None if optional == Some(true) => Ok(None),
            None => Err(format!(
                "couldn't find key {key} in {kind} {}/{name}",
                self.namespace()
            )),
        }
    }

    async fn secret(&self, name: &str, optional: Option<bool>) -> Result<Option<Data>, Failure> {
        let data = secret(self.client, self.namespace(), name).await?;
        present(data, optional, || format!("secret {name:?} not found"))
    }

    async fn config_map(
        &self,
        name: &str,
        optional: Option<bool>,
    ) -> Result<Option<Data>, Failure> {
        let data = config_map(self.client, self.namespace(), name).await?;
        present(data, optional, || format!("configmap {name:?} not found"))
    }

    /// User, group and further groups.
    fn user(&self, container: &Container, image: &Image) -> Result<(u32, u32, Vec<u32>), Failure> {
        let of_pod = self
            .pod
            .spec
            .as_ref()
            .and_then(|spec| spec.security_context.as_ref());
        let own = container.security_context.as_ref();
        let (image_uid, image_gid) = image.user.unwrap_or((0, 0));
        let number = |stated: Option<i64>, otherwise: u32| {
            stated.map_or(Ok(otherwise), |stated| {
                u32::try_from(stated).map_err(|_| format!("{stated} is no user or group"))
            })
        };
        let uid = own
            .and_then(|own| own.run_as_user)
            .or_else(|| of_pod.and_then(|of_pod| of_pod.run_as_user));
        let gid = own
            .and_then(|own| own.run_as_group)
            .or_else(|| of_pod.and_then(|of_pod| of_pod.run_as_group));
        let no_root = own
            .and_then(|own| own.run_as_non_root)
            .or_else(|| of_pod.and_then(|of_pod| of_pod.run_as_non_root));
        if no_root == Some(true) && uid.unwrap_or(i64::from(image_uid)) == 0 {
            let why = match uid {
                Some(_) => "container's runAsUser breaks non-root policy",
                None => "container has runAsNonRoot and image will run as root",
            };
            return Err(format!(
                "{why} (pod: \"{}_{}({})\", container: {})",
                self.pod.metadata.name.as_deref().unwrap_or_default(),
                self.namespace(),
                self.pod.metadata.uid.as_deref().unwrap_or_default(),
                container.name
            ));
        }
        let mut groups = Vec::new();
        if let Some(of_pod) = of_pod {
            for group in of_pod.supplemental_groups.iter().flatten() {
                groups.push(number(Some(*group), 0)?);
            }
            if of_pod.fs_group.is_some() {
                groups.push(number(of_pod.fs_group, 0)?);
            }
        }
        Ok((number(uid, image_uid)?, number(gid, image_gid)?, groups))
    }
}

/// The content of a Secret or ConfigMap.
pub type Data = BTreeMap<String, Vec<u8>>;

/// A Secret's content; `None` if there is none.
///
/// # Errors
/// What the API server said.
pub async fn secret(
    client: &kube::Client,
    namespace: &str,
    name: &str,
) -> Result<Option<Data>, Failure> {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let found = secrets
        .get_opt(name)
        .await
        .map_err(|error| error.to_string())?;
    Ok(found.map(|secret| {
        let data = secret.data.into_iter().flatten();
        data.map(|(key, value)| (key, value.0)).collect()
    }))
}

/// A ConfigMap's content; `None` if there is none.
///
/// # Errors
/// What the API server said.
pub async fn config_map(
    client: &kube::Client,
    namespace: &str,
    name: &str,
) -> Result<Option<Data>, Failure> {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let found = maps
        .get_opt(name)
        .await
        .map_err(|error| error.to_string())?;
    Ok(found.map(|map| {
        let texts = map.data.into_iter().flatten();
        let texts = texts.map(|(key, value)| (key, value.into_bytes()));
        let binaries = map.binary_data.into_iter().flatten();
        texts
            .chain(binaries.map(|(key, value)| (key, value.0)))
            .collect()
    }))
}

fn present(
    data: Option<Data>,
    optional: Option<bool>,
    missing: impl FnOnce() -> String,
) -> Result<Option<Data>, Failure> {
    match data {
        None if optional != Some(true) => Err(missing()),
        other => Ok(other),
    }
}

fn text(value: Vec<u8>) -> String {
    String::from_utf8_lossy(&value).into_owned()
}

fn find<'a>(env: &'a [(String, String)], name: &str) -> Option<&'a str> {
    let found = env.iter().rev().find(|(known, _)| known == name);
    found.map(|(_, value)| value.as_str())
}
