//! The strict reading of a Stack's specification: what the rest of the core may rely on.

use std::collections::{BTreeMap, BTreeSet};

use windlass_api::Stack;
use windlass_api::prerequisite::Prerequisite;
use windlass_api::reference::{GitAuth, ReferenceError, ResourceRef, Selector};
use windlass_api::run::{LoginExchange, Operation, ProgramSource};
use windlass_api::stack::{SourceKind as Source, StackSpec};
use windlass_api::workspace::WorkspaceSpec;

use crate::digest::digest;
use crate::snapshot::{Objects, Reference, ReferenceKind};

/// Which source provider a Stack names, by the field that it uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceKind {
    /// A provider's name: `git`, `flux`, `program`, or the `type` of `spec.source`.
    Provider(String),
    /// None is named: the program lies in the workspace already.
    WorkspacePath,
}

/// A specification that has been read strictly.
#[derive(Clone, Debug)]
pub struct Checked {
    pub source: SourceKind,
    pub prerequisites: Vec<Prerequisite>,
    /// Secrets and ConfigMaps that a run needs, in order.
    pub references: BTreeSet<Reference>,
    /// Outputs of other Stacks in use, by variable name: (stack, output).
    pub stack_outputs: BTreeMap<String, (String, String)>,
}

/// What is wrong with a specification, in the words of the condition SpecInvalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecError(pub String);

impl std::fmt::Display for SpecError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// Reads the specification strictly.
///
/// # Errors
/// The first thing that is wrong, naming the field and what to do.
pub fn check(stack: &Stack, workspace_path: bool) -> Result<Checked, SpecError> {
    let spec = &stack.spec;
    let namespace = stack.metadata.namespace.as_deref().unwrap_or("default");
    if spec.stack.trim().is_empty() {
        return Err(SpecError(
            "spec.stack is empty; name the Pulumi stack, as in organization/project/stack".into(),
        ));
    }
    if let Some(template) = spec
        .update_template
        .as_ref()
        .and_then(|template| template.spec.as_ref())
        && template.type_.is_some()
    {
        template
            .operation()
            .map_err(|error| SpecError(format!("spec.updateTemplate.spec.type: {error}")))?;
    }
    let source = source_kind(spec, workspace_path)?;
    let own = stack.metadata.name.as_deref().unwrap_or_default();
    let mut prerequisites = Vec::new();
    for (index, written) in spec.prerequisites.iter().enumerate() {
        let prerequisite = written
            .normalize()
            .map_err(|error| SpecError(format!("spec.prerequisites[{index}]: {error}")))?;
        prerequisites.push(prerequisite);
    }
    for (index, object) in spec.health_checks.iter().enumerate() {
        object
            .check()
            .map_err(|error| SpecError(format!("spec.healthChecks[{index}]: {error}")))?;
    }
    let mut references = BTreeSet::new();
    let mut stack_outputs = BTreeMap::new();
    for (variable, reference) in &spec.env_refs {
        let path = format!("spec.envRefs.{variable}");
        match select(&path, namespace, reference)? {
            Selector::StackOutput { stack, .. } if stack == own => {
                return Err(SpecError(format!(
                    "{path}: a Stack cannot use its own output"
                )));
            }
            Selector::StackOutput { stack, output } => {
                stack_outputs.insert(variable.clone(), (stack.to_owned(), output.to_owned()));
            }
            selector => references.extend(reference_of(&selector)),
        }
    }
    for (key, reference) in &spec.secrets_ref {
        let path = format!("spec.secretsRef.{key}");
        match select(&path, namespace, reference)? {
            Selector::Secret(_) | Selector::Literal(_) => {}
            Selector::ConfigMap(_) | Selector::StackOutput { .. } => {
                return Err(SpecError(format!(
                    "{path}: type must be Secret or Literal, found {}",
                    reference.type_
                )));
            }
        }
        references.extend(reference_of(&select(&path, namespace, reference)?));
    }
    if let Some(auth) = &spec.git_auth {
        same_namespace(auth, namespace)?;
    }
    for config in spec.config_ref.values() {
        references.insert(Reference {
            kind: ReferenceKind::ConfigMap,
            name: config.name.clone(),
            key: Some(config.key.clone()),
        });
    }
    let whole = |kind, name: &String| Reference {
        kind,
        name: name.clone(),
        key: None,
    };
    references.extend(
        spec.envs
            .iter()
            .map(|name| whole(ReferenceKind::ConfigMap, name)),
    );
    references.extend(
        spec.env_secrets
            .iter()
            .map(|name| whole(ReferenceKind::Secret, name)),
    );
    if let Some(name) = &spec.access_token_secret {
        references.insert(Reference {
            kind: ReferenceKind::Secret,
            name: name.clone(),
            key: Some("accessToken".to_owned()),
        });
    }
    Ok(Checked {
        source,
        prerequisites,
        references,
        stack_outputs,
    })
}

fn source_kind(spec: &StackSpec, workspace_path: bool) -> Result<SourceKind, SpecError> {
    let named = spec.sources();
    match named.as_slice() {
        [one] => Ok(SourceKind::Provider(provider(one).to_owned())),
        [] if workspace_path => Ok(SourceKind::WorkspacePath),
        [] => Err(SpecError(
            "the Stack names no source; set one of spec.projectRepo, spec.programRef, spec.fluxSource or spec.source"
                .into(),
        )),
        several => {
            let fields: Vec<&str> = several.iter().map(field).collect();
            Err(SpecError(format!("the Stack names several sources: {}; keep one", fields.join(" and "))))
        }
    }
}

fn provider<'a>(source: &Source<'a>) -> &'a str {
    match source {
        Source::Git => "git",
        Source::Flux => "flux",
        Source::Program => "program",
        Source::Plugin(name) => name,
    }
}

fn field(source: &Source<'_>) -> &'static str {
    match source {
        Source::Git => "spec.projectRepo (or another field of a Git source)",
        Source::Flux => "spec.fluxSource",
        Source::Program => "spec.programRef",
        Source::Plugin(_) => "spec.source",
    }
}

fn select<'a>(
    path: &str,
    namespace: &str,
    reference: &'a ResourceRef,
) -> Result<Selector<'a>, SpecError> {
    reference
        .selector(namespace)
        .map_err(|error| SpecError(format!("{path}: {error}")))
}

/// Credentials come from the Stack's own namespace. What else may be wrong with them, their provider says.
fn same_namespace(auth: &GitAuth, namespace: &str) -> Result<(), SpecError> {
    let GitAuth {
        access_token,
        ssh_auth,
        basic_auth,
        github_app,
    } = auth;
    let mut references = vec![("accessToken", access_token.as_ref())];
    if let Some(ssh) = ssh_auth {
        references.push(("sshAuth.sshPrivateKey", Some(&ssh.ssh_private_key)));
        references.push(("sshAuth.password", ssh.password.as_ref()));
    }
    if let Some(basic) = basic_auth {
        references.push(("basicAuth.userName", Some(&basic.user_name)));
        references.push(("basicAuth.password", Some(&basic.password)));
    }
    if let Some(app) = github_app {
        references.push(("githubApp.appID", Some(&app.app_id)));
        references.push(("githubApp.installationID", Some(&app.installation_id)));
        references.push(("githubApp.privateKey", Some(&app.private_key)));
    }
    for (field, reference) in references {
        let refused = reference.and_then(|reference| reference.selector(namespace).err());
        if let Some(error @ ReferenceError::CrossNamespace { .. }) = refused {
            return Err(SpecError(format!("spec.gitAuth.{field}: {error}")));
        }
    }
    Ok(())
}

fn reference_of(selector: &Selector<'_>) -> Option<Reference> {
    let (kind, name, key) = match selector {
        Selector::Secret(secret) => (ReferenceKind::Secret, &secret.name, &secret.key),
        Selector::ConfigMap(map) => (ReferenceKind::ConfigMap, &map.name, &map.key),
        Selector::Literal(_) | Selector::StackOutput { .. } => return None,
    };
    Some(Reference {
        kind,
        name: name.clone(),
        key: Some(key.clone()),
    })
}

impl Checked {
    /// The operation that a Stack asks for while it lives.
    pub fn operation(spec: &StackSpec) -> Operation {
        // The template may name another operation, as in the Pulumi Kubernetes Operator.
        let template = spec
            .update_template
            .as_ref()
            .and_then(|template| template.spec.as_ref());
        match template {
            Some(template) if template.type_.is_some() => {
                template.operation().unwrap_or(Operation::Up)
            }
            _ if spec.preview => Operation::Preview,
            _ => Operation::Up,
        }
    }

    /// References that do not exist, as a sentence each.
    pub fn missing(&self, objects: &Objects) -> Vec<String> {
        self.references
            .iter()
            .filter(|reference| !matches!(objects.references.get(reference), Some(Some(_))))
            .map(|Reference { kind, name, key }| match key {
                Some(key) => format!("{kind:?} \"{name}\" with key \"{key}\""),
                None => format!("{kind:?} \"{name}\""),
            })
            .collect()
    }

    /// Outputs of other Stacks that do not exist yet: (stack, output).
    pub fn missing_outputs<'a>(&'a self, objects: &Objects) -> Vec<&'a (String, String)> {
        self.stack_outputs
            .values()
            .filter(|(stack, output)| {
                !objects
                    .stacks
                    .get(stack)
                    .is_some_and(|view| view.outputs.contains_key(output))
            })
            .collect()
    }

    /// Digest over the outputs of other Stacks in use; empty where none is.
    pub fn stack_outputs_digest(&self, objects: &Objects) -> String {
        if self.stack_outputs.is_empty() {
            return String::new();
        }
        let values: BTreeMap<_, _> = self
            .stack_outputs
            .iter()
            .map(|(variable, (stack, output))| {
                (
                    variable,
                    objects
                        .stacks
                        .get(stack)
                        .and_then(|view| view.outputs.get(output)),
                )
            })
            .collect();
        digest(&values)
    }

    /// Digest over what an instance of the workspace is made from. A change replaces it; a changed value behind a
    /// reference does not, nor does the configuration: only another object to be mounted for it does. Nor does the
    /// source, unless the template has init containers of its own, which find it in place.
    /// Outputs of other Stacks are part of the environment, and their consumers run again when they change.
    pub fn workspace_digest(
        &self,
        spec: &StackSpec,
        objects: &Objects,
        login: Option<&LoginExchange>,
        program: &ProgramSource,
    ) -> String {
        let config_maps: BTreeSet<_> = spec.config_ref.values().map(|c| &c.name).collect();
        let secrets: BTreeSet<_> = spec
            .secrets_ref
            .values()
            .filter(|reference| reference.type_ == "Secret")
            .filter_map(|reference| Some(&reference.secret.as_ref()?.name))
            .collect();
        digest(&(
            config_maps,
            secrets,
            &spec.env_refs,
            &spec.envs,
            &spec.env_secrets,
            &spec.access_token_secret,
            &spec.backend,
            &spec.service_account_name,
            &spec.workspace_template,
            self.stack_outputs_digest(objects),
            // A token for it is mounted.
            login.map(|login| &login.audience),
            // Its own init containers have worked on it.
            source_first(spec, program).then_some(program),
        ))
    }

    /// Digest over everything that a run depends on beside the revision: an Update that pins another digest is out of
    /// date.
    pub fn inputs_digest(&self, stack: &Stack, objects: &Objects) -> String {
        let versions: BTreeMap<_, _> = self
            .references
            .iter()
            .map(|reference| (reference, objects.references.get(reference)))
            .collect();
        digest(&(
            stack.metadata.uid.as_deref(),
            stack.metadata.generation,
            stack.metadata.deletion_timestamp.is_some(),
            self.stack_outputs_digest(objects),
            versions,
        ))
    }
}

/// Whether the workspace's own init containers find the program in place: there are some, and a program to be put there.
pub fn source_first(spec: &StackSpec, program: &ProgramSource) -> bool {
    let template = spec.workspace_template.as_ref();
    let workspace = template.and_then(|template| template.spec.as_ref());
    matches!(program, ProgramSource::Tree { .. })
        && workspace.is_some_and(WorkspaceSpec::has_init_containers)
}
