//! Custom kinds that are on their way to being served.

use std::time::{Duration, Instant};

use super::ControlPlane;

const PATIENCE: Duration = Duration::from_secs(120);

impl ControlPlane {
    /// Waits until a CustomResourceDefinition is established, after which nobody writes it any more. (`kubectl wait` fails
    /// on one that has no condition yet.)
    ///
    /// # Panics
    /// When it is not in time.
    pub async fn until_established(&self, definition: &str) {
        let path = r#"jsonpath={.status.conditions[?(@.type=="Established")].status}"#;
        let begun = Instant::now();
        loop {
            let said = self.kubectl(&["get", "crd", definition, "-o", path]).await;
            if said.stdout == b"True" {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "{definition}: {said:?}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}
