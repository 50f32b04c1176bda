//! Manifests into the store.
#![allow(clippy::unwrap_used)]
use super::*;
use windlass_api::names::FINALIZER;

struct Place {
    dir: tempfile::TempDir,
    db: Db,
}

impl Place {
    fn new() -> Place {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("m")).unwrap();
        let db = Db::open(&dir.path().join("store.db")).unwrap();
        Place { dir, db }
    }

    fn write(&self, file: &str, text: &str) {
        std::fs::write(self.dir.path().join("m").join(file), text).unwrap();
    }

    fn stack(&self, name: &str, more: &str) {
        let text = format!(
            "apiVersion: pulumi.com/v1\nkind: Stack\nmetadata: {{name: {name}}}\nspec:\n  stack: organization/a/b\n  \
             programRef: {{name: p}}\n{more}"
        );
        self.write(&format!("{name}.yaml"), &text);
    }

    fn sync(&self, destroy: bool) -> Synced {
        sync(&self.db, &[self.dir.path().join("m")], destroy).unwrap()
    }

    fn get(&self, name: &str) -> Option<Stack> {
        self.db
            .get::<Stack>(kind::STACK, "default", name)
            .unwrap()
            .map(|stored| stored.object)
    }

    /// As the engine does on its first step.
    fn hold(&self, name: &str) {
        let stored = self
            .db
            .get::<Stack>(kind::STACK, "default", name)
            .unwrap()
            .unwrap();
        let mut stack = stored.object;
        stack.metadata.finalizers = Some(vec![FINALIZER.to_owned()]);
        self.db
            .put(kind::STACK, ("default", name), "", None, &stack)
            .unwrap();
    }
}

#[test]
fn the_generation_moves_with_the_spec_alone() {
    let place = Place::new();
    place.stack("a", "");
    assert_eq!(place.sync(false).touched.len(), 1);
    assert_eq!(place.get("a").unwrap().metadata.generation, Some(1));
    assert!(place.sync(false).touched.is_empty());
    place.stack("a", "  refresh: true\n");
    assert_eq!(place.sync(false).touched.len(), 1);
    let stack = place.get("a").unwrap();
    assert_eq!(
        (stack.metadata.generation, stack.spec.refresh),
        (Some(2), true)
    );
}

#[test]
fn what_is_broken_now_is_not_gone() {
    let place = Place::new();
    place.stack("a", "");
    place.stack("b", "");
    place.sync(false);
    place.hold("a");
    place.hold("b");
    place.stack("a", "  refresh: perhaps\n");
    let synced = place.sync(false);
    assert_eq!(synced.errors.len(), 1);
    assert!(
        place
            .get("a")
            .unwrap()
            .metadata
            .deletion_timestamp
            .is_none()
    );
    // A file that is no YAML could hold anything: nothing is deleted while it stands.
    place.write("b.yaml", "a: [");
    place.sync(false);
    assert!(
        place
            .get("b")
            .unwrap()
            .metadata
            .deletion_timestamp
            .is_none()
    );
}

#[test]
fn secrets_stay_until_the_last_stack_that_is_deleted_is_gone() {
    let place = Place::new();
    place.stack("a", "");
    place.write(
        "s.yaml",
        "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {k: v}\n",
    );
    place.sync(false);
    place.hold("a");
    for file in ["a.yaml", "s.yaml"] {
        std::fs::remove_file(place.dir.path().join("m").join(file)).unwrap();
    }
    place.sync(false);
    let stack = place.get("a").unwrap();
    assert!(stack.metadata.deletion_timestamp.is_some());
    assert_eq!(stack.metadata.generation, Some(2));
    assert!(
        place
            .db
            .get::<Secret>(kind::SECRET, "default", "s")
            .unwrap()
            .is_some()
    );
    place.db.delete(kind::STACK, "default", "a").unwrap();
    place.sync(false);
    assert!(
        place
            .db
            .get::<Secret>(kind::SECRET, "default", "s")
            .unwrap()
            .is_none()
    );
}

#[test]
fn taking_down_begins_with_what_nothing_depends_on() {
    let place = Place::new();
    place.stack("base", "");
    place.stack("top", "  prerequisites: [{name: base}]\n");
    place.sync(false);
    place.hold("base");
    place.hold("top");
    place.sync(true);
    assert!(
        place
            .get("top")
            .unwrap()
            .metadata
            .deletion_timestamp
            .is_some()
    );
    assert!(place.get("top").unwrap().spec.destroy_on_finalize);
    assert!(
        place
            .get("base")
            .unwrap()
            .metadata
            .deletion_timestamp
            .is_none()
    );
    place.db.delete(kind::STACK, "default", "top").unwrap();
    assert_eq!(take_down(&place.db).unwrap().len(), 1);
    assert!(
        place
            .get("base")
            .unwrap()
            .metadata
            .deletion_timestamp
            .is_some()
    );
}
