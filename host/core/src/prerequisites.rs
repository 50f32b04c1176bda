//! Whether the Stacks that this one waits for have run, and whether waiting can ever end.

use std::collections::BTreeMap;

use windlass_api::prerequisite::Prerequisite;

use crate::snapshot::StackView;
use crate::time::Timestamp;

/// What the prerequisites say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gate {
    Open,
    Closed {
        message: String,
        /// Names of the Stacks that are waited for.
        on: Vec<String>,
        /// Out of date: asked to run again, with the value of the annotation.
        requests: Vec<(String, String)>,
    },
    /// The Stacks of the cycle, the first one repeated at the end.
    Cycle(Vec<String>),
}

/// Judges the prerequisites of the Stack `own`.
pub fn gate(
    own: &str,
    wanted: &[Prerequisite],
    stacks: &BTreeMap<String, StackView>,
    now: Timestamp,
) -> Gate {
    if let Some(cycle) = cycle(own, wanted, stacks) {
        return Gate::Cycle(cycle);
    }
    let mut causes = Vec::new();
    let mut on = Vec::new();
    let mut requests = Vec::new();
    for prerequisite in wanted {
        let name = &prerequisite.name;
        let cause = match stacks.get(name) {
            None => format!("unable to fetch prerequisite \"{name}\": Stack \"{name}\" not found"),
            Some(view) => match unmet(prerequisite, view, now) {
                None => continue,
                Some(Unmet::OutOfDate { after }) => {
                    requests.push((name.clone(), format!("after-{after}")));
                    format!(
                        "prerequisite not satisfied for \"{name}\": prerequisite is out of date"
                    )
                }
                Some(Unmet::NotRun) => {
                    format!(
                        "prerequisite not satisfied for \"{name}\": prerequisite has not run to completion"
                    )
                }
                Some(Unmet::Failed) => {
                    format!("prerequisite not satisfied for \"{name}\": prerequisite failed")
                }
            },
        };
        causes.push(cause);
        on.push(name.clone());
    }
    let message = match causes.len() {
        0 => return Gate::Open,
        1 => causes.remove(0),
        _ => format!(
            "multiple prerequisites were not satisfied {}",
            causes.join(", ")
        ),
    };
    requests.retain(|(name, value)| {
        stacks
            .get(name)
            .is_some_and(|view| view.reconcile_request.as_deref() != Some(value.as_str()))
    });
    Gate::Closed {
        message,
        on,
        requests,
    }
}

enum Unmet {
    NotRun,
    Failed,
    OutOfDate { after: String },
}

fn unmet(prerequisite: &Prerequisite, view: &StackView, now: Timestamp) -> Option<Unmet> {
    let Some(last) = &view.last else {
        return Some(Unmet::NotRun);
    };
    if view.deleting
        || last.generation != view.generation
        || last.reconcile_request != view.reconcile_request
    {
        return Some(Unmet::NotRun);
    }
    if !last.succeeded {
        return Some(Unmet::Failed);
    }
    match prerequisite.within {
        Some(within) if now.since(last.at) > within => Some(Unmet::OutOfDate {
            after: last.name.clone(),
        }),
        _ => None,
    }
}

/// A cycle through `own`, if there is one. Cycles among others are theirs to report.
fn cycle(
    own: &str,
    wanted: &[Prerequisite],
    stacks: &BTreeMap<String, StackView>,
) -> Option<Vec<String>> {
    fn walk(
        at: &str,
        own: &str,
        stacks: &BTreeMap<String, StackView>,
        path: &mut Vec<String>,
        visited: &mut std::collections::BTreeSet<String>,
    ) -> bool {
        path.push(at.to_owned());
        if at == own {
            return true;
        }
        if visited.insert(at.to_owned())
            && let Some(view) = stacks.get(at)
        {
            for next in &view.prerequisites {
                if walk(next, own, stacks, path, visited) {
                    return true;
                }
            }
        }
        path.pop();
        false
    }
    let mut visited = std::collections::BTreeSet::new();
    for prerequisite in wanted {
        let mut path = vec![own.to_owned()];
        if walk(&prerequisite.name, own, stacks, &mut path, &mut visited) {
            return Some(path);
        }
    }
    None
}

/// When a prerequisite that is satisfied now goes out of date by itself: only a Stack with a run due needs to know.
pub fn satisfied_until(
    wanted: &[Prerequisite],
    stacks: &BTreeMap<String, StackView>,
) -> Option<Timestamp> {
    wanted
        .iter()
        .filter_map(|p| Some(stacks.get(&p.name)?.last.as_ref()?.at.after(p.within?)))
        .min()
}
