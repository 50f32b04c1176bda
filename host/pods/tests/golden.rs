//! Whole pods, as they are sent to the API server. A change here is a change that replaces every workspace's pod, or that
//! somebody's template may not expect: look at the difference before accepting it.

use k8s_openapi::api::core::v1::Pod;
use windlass_pods::{LoginToken, PodOptions, pod};

use crate::support::*;

fn written(pod: &Pod) -> String {
    serde_saphyr::to_string(pod).unwrap_or_else(|e| panic!("{e}"))
}

const TEMPLATE: &str = r#"
podTemplate:
  metadata:
    labels: {team: platform}
  spec:
    initContainers:
    - name: prepare
      image: registry.example/prepare:1
      command: [sh, -c, "echo A=b > /share/.env"]
      volumeMounts: [{name: share, mountPath: /share}]
    containers:
    - name: proxy
      image: registry.example/proxy:1
    - name: pulumi
      volumeMounts: [{name: state, mountPath: /state}]
    volumes:
    - name: state
      persistentVolumeClaim: {claimName: state}
"#;

#[test]
fn minimal_restricted() {
    insta::assert_snapshot!(written(&pod_of("")));
}

#[test]
fn minimal_baseline() {
    insta::assert_snapshot!(written(&make_pod(&workspace("securityProfile: baseline"))));
}

#[test]
fn init_containers_and_sidecar() {
    insta::assert_snapshot!(written(&make_pod(&workspace(TEMPLATE))));
}

#[test]
fn everything() {
    let stack = stack(
        r#"
backend: s3://state
accessTokenSecret: pulumi-token
serviceAccountName: deployer
envs: [settings]
envSecrets: [credentials]
envRefs:
  ZONE: {type: Literal, literal: {value: a}}
  PASS: {type: Secret, secret: {name: pass, key: phrase}}
  REGION: {type: ConfigMap, configMap: {name: settings, key: region}}
  VPC: {type: StackOutput, stack: network, output: vpcId}
configRef: {"shop:region": {name: settings, key: region}}
secretsRef: {"shop:token": {type: Secret, secret: {name: tokens.example.com, key: api}}}
workspaceTemplate:
  metadata: {labels: {team: platform}}
  spec:
    image: registry.example/pulumi:3
    imagePullPolicy: Always
    pulumiLogLevel: 3
    resources: {requests: {memory: 512Mi}, limits: {memory: 2Gi}}
    podTemplate:
      spec:
        nodeSelector: {disk: ssd}
        automountServiceAccountToken: false
        initContainers: [{name: prepare, image: "registry.example/prepare:1"}]
        containers: [{name: pulumi, volumeMounts: [{name: cache, mountPath: /cache}]}]
        volumes: [{name: cache, emptyDir: {sizeLimit: 1Gi}}]
"#,
    );
    let options = PodOptions {
        login: Some(LoginToken {
            audience: "urn:pulumi:org:acme".to_owned(),
            expiration_seconds: 3600,
        }),
        source_first: true,
        ..options()
    };
    let workspace = make_workspace(&stack);
    insta::assert_snapshot!(
        "everything_workspace",
        serde_saphyr::to_string(&workspace).unwrap()
    );
    insta::assert_snapshot!("everything", written(&pod(&workspace, &options).unwrap()));
}
