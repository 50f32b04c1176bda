//! What there is of Stacks and Programs, read from the watches when it is asked for: what is gone has no values.

use std::borrow::Cow;
use std::fmt::Error;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use windlass_api::conditions::{READY, RECONCILING, STALLED, is_true};
use windlass_api::stack::{StackStatus, UpdateState};
use windlass_api::{ObjectMeta, Program, Resource, Stack};

use crate::metrics::samples::{gauge, gauges, number};
use crate::world::World;

/// The objects of a cluster. Only a leader tells of them: summed over replicas they are right.
pub struct Objects(pub Arc<World>);

impl std::fmt::Debug for Objects {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Objects")
    }
}

impl Collector for Objects {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), Error> {
        let encoder = &mut encoder;
        let world = &self.0;
        gauges(
            encoder,
            "windlass_unreadable_objects",
            "Objects that were written under another definition and cannot be read, by kind",
            world
                .unreadable_by_kind()
                .into_iter()
                .map(|(kind, count)| ([("kind", kind)], number(count))),
        )?;
        if world.engine().is_none() {
            return Ok(());
        }
        let stacks = world.stacks.all();
        let programs = world.programs.all();
        gauge(
            encoder,
            "stacks_active",
            "Number of Stacks",
            number(stacks.len()),
        )?;
        gauge(
            encoder,
            "programs_active",
            "Number of Programs",
            number(programs.len()),
        )?;
        let per_stack = |holds: fn(&StackStatus) -> bool| {
            stacks.iter().map(move |stack| {
                let holds = stack.status.as_ref().is_some_and(holds);
                (labels(&stack.metadata), f64::from(u8::from(holds)))
            })
        };
        gauges(
            encoder,
            "stacks_failing",
            "Whether the last update of a Stack failed",
            per_stack(failing),
        )?;
        gauges(
            encoder,
            "stacks_reconciling",
            "Whether a Stack is being reconciled",
            per_stack(|status| is_true(&status.conditions, RECONCILING)),
        )?;
        let created = stacks
            .iter()
            .map(|stack| created::<Stack>(&stack.metadata))
            .chain(
                programs
                    .iter()
                    .map(|program| created::<Program>(&program.metadata)),
            );
        gauges(
            encoder,
            "resource_created_at_seconds",
            "When an object was created, in seconds since the epoch",
            created.flatten(),
        )?;
        let mut states = [
            ("ready", 0),
            ("reconciling", 0),
            ("stalled", 0),
            ("other", 0),
        ];
        for stack in &stacks {
            states[state_of(stack.status.as_ref())].1 += 1;
        }
        gauges(
            encoder,
            "windlass_stacks",
            "Stacks by what their conditions say",
            states.map(|(state, count)| ([("state", state)], number(count))),
        )?;
        gauge(
            encoder,
            "windlass_stacks_deleting",
            "Stacks that are being deleted and still there",
            number(
                stacks
                    .iter()
                    .filter(|stack| stack.metadata.deletion_timestamp.is_some())
                    .count(),
            ),
        )
    }
}

/// Index of the state: a Stack is in one of them.
fn state_of(status: Option<&StackStatus>) -> usize {
    let conditions = status
        .map(|status| status.conditions.as_slice())
        .unwrap_or_default();
    if is_true(conditions, STALLED) {
        2
    } else if is_true(conditions, READY) {
        0
    } else if is_true(conditions, RECONCILING) {
        1
    } else {
        3
    }
}

fn failing(status: &StackStatus) -> bool {
    let last = status.last_update.as_ref();
    last.and_then(|last| last.state.as_ref()) == Some(&UpdateState::Failed)
}

fn labels(metadata: &ObjectMeta) -> [(&'static str, String); 2] {
    [
        ("namespace", metadata.namespace.clone().unwrap_or_default()),
        ("name", metadata.name.clone().unwrap_or_default()),
    ]
}

type CreatedLabels = [(&'static str, Cow<'static, str>); 5];

fn created<K: Resource<DynamicType = ()>>(metadata: &ObjectMeta) -> Option<(CreatedLabels, f64)> {
    let at = metadata.creation_timestamp.as_ref()?;
    let labels = [
        ("name", metadata.name.clone()?.into()),
        ("namespace", metadata.namespace.clone()?.into()),
        ("group", K::group(&())),
        ("version", K::version(&())),
        ("kind", K::kind(&())),
    ];
    Some((labels, at.0.as_second() as f64))
}
