//! What an operator shows of itself: metrics to whoever may read them, events, archives of Programs.
#![allow(clippy::unwrap_used)]

mod metrics;
mod programs;

use std::time::{Duration, Instant};

use windlass_operator::Operator;

const PATIENCE: Duration = Duration::from_secs(90);

const PROGRAM: &str = r#"
apiVersion: pulumi.com/v1
kind: Program
metadata: {name: hello}
program:
  resources:
    message: {type: "pulumi:Stash", properties: {input: hello}}
  outputs:
    greeting: "${message.input}"
"#;

fn client() -> reqwest::Client {
    reqwest::Client::builder()
        .tls_danger_accept_invalid_certs(true)
        .no_proxy()
        .timeout(Duration::from_secs(20))
        .build()
        .unwrap()
}

/// Waits until an answer is there and as it should be.
async fn until<T>(operator: &Operator, what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(
            begun.elapsed() < PATIENCE,
            "not {what}\n{}",
            operator.logs()
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
