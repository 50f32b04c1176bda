//! Addresses, and what tests do to pods.

use std::path::Path;
use std::time::{Duration, Instant};

use pretty_assertions::assert_eq;
use serde_json::json;

use crate::support::{Place, shell};

#[tokio::test]
async fn two_pods_serve_the_same_port_at_addresses_of_their_own() {
    let Some(place) = Place::new("ports").await else {
        return;
    };
    let script = "import os, socket\n\
                  s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)\n\
                  s.bind((os.environ['POD_IP'], 50051)); s.listen()\n\
                  while True:\n c, _ = s.accept(); c.sendall(os.environ['ME'].encode()); c.close()\n";
    if !Path::new("/usr/bin/python3").exists() {
        windlass_cluster::skip("there is no python3, which is the server of this test");
        return;
    }
    for name in ["one", "two"] {
        place
            .create(name, json!({"containers": [{
                "name": "main", "image": "example.com/tools:1",
                "command": ["/usr/bin/python3", "-c", script],
                "ports": [{"name": "grpc", "containerPort": 50051}],
                "readinessProbe": {"tcpSocket": {"port": "grpc"}, "periodSeconds": 1},
                "env": [
                    {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
                    {"name": "ME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                ],
            }]}))
            .await;
    }
    for name in ["one", "two"] {
        let pod = place.until_ready(name).await;
        let address = pod["status"]["podIP"].as_str().unwrap();
        let mut stream = tokio::net::TcpStream::connect((address, 50051))
            .await
            .unwrap();
        let mut answer = String::new();
        tokio::io::AsyncReadExt::read_to_string(&mut stream, &mut answer)
            .await
            .unwrap();
        assert_eq!(answer, name);
    }
}

#[tokio::test]
async fn a_frozen_pod_does_nothing_until_it_is_thawed() {
    let Some(place) = Place::new("frozen").await else {
        return;
    };
    let script = "while :; do echo tick; sleep 0.02; done";
    place
        .create("p", json!({"containers": [shell(script)]}))
        .await;
    place.until_logged("p", "tick").await;
    // Its output is there before the kubelet has heard that it runs.
    place.until_ready("p").await;
    place.kubelet.freeze(&place.namespace, "p").unwrap();
    let states = || {
        let all = place.kubelet.processes(&place.namespace, "p").unwrap();
        let state = |pid| std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        all.into_iter().map(state).collect::<Vec<_>>()
    };
    let deadline = Instant::now() + Duration::from_secs(30);
    // One that waits in vfork for a child that is stopped cannot be stopped itself, nor run.
    let stopped = |stat: &String| stat.contains(") T ") || stat.contains(") D ");
    while !states().iter().all(stopped) {
        assert!(Instant::now() < deadline, "{:?}", states());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let frozen = place.logs("p").len();
    assert_eq!(place.logs("p").len(), frozen);
    place.kubelet.thaw(&place.namespace, "p").unwrap();
    place
        .until("p", "more ticks", |_| place.logs("p").len() > frozen)
        .await;
}
