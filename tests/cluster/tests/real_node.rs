//! The real node itself: pods run, are reached and asked, and nothing of it is left at the end.

#![allow(clippy::unwrap_used)]
#![cfg(target_os = "linux")]

use serde_json::json;
use windlass_cluster::node::image::{Layer, NodeImage};
use windlass_cluster::{ControlPlane, RealNode};

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_runs_and_nothing_is_left_of_its_node() {
    let Some(plane) = ControlPlane::start().await else {
        return;
    };
    let t = std::time::Instant::now();
    let base = Layer::base().unwrap();
    let images = vec![
        NodeImage::new("localhost/pause:1", &[base.clone()])
            .with_command(&["/bin/sleep", "infinity"]),
    ];
    let Some(node) = RealNode::start(&plane, images).await else {
        return;
    };
    eprintln!("node {:?}", t.elapsed());
    let ns = plane.namespace("x").await;
    let pod = json!({"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":ns},"spec":{
        "containers":[{"name":"main","image":"localhost/pause:1","command":["sh","-c","id; echo $HOME; exec sleep 1000"],
           "securityContext":{"runAsUser":1000}}]}});
    let o = plane
        .kubectl_with(&["create", "-f", "-"], pod.to_string().as_bytes())
        .await;
    eprintln!("{o:?}");
    let o = plane
        .kubectl(&[
            "wait",
            "-n",
            &ns,
            "pod/p",
            "--for=condition=Ready",
            "--timeout=30s",
        ])
        .await;
    eprintln!("{:?} {o:?}", t.elapsed());
    for a in [
        &["logs", "-n", &ns, "p"][..],
        &["exec", "-n", &ns, "p", "--", "ls", "-la", "/proc/1/"],
        &["get", "nodes", "-o", "wide"],
        &["get", "events", "-A"],
    ] {
        let o = plane.kubectl(a).await;
        eprintln!(
            "{}{}",
            String::from_utf8_lossy(&o.stdout),
            String::from_utf8_lossy(&o.stderr)
        );
    }
    if std::env::var_os("SHOW").is_some() {
        eprintln!("{}", node.log_tails());
    }
    if std::env::var_os("HOLD").is_some() {
        tokio::time::sleep(std::time::Duration::from_secs(600)).await;
    }
    let t = std::time::Instant::now();
    drop(node);
    eprintln!("end {:?}", t.elapsed());
}
