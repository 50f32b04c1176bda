//! HTTP on behalf of plugins, against real servers.
#![allow(clippy::unwrap_used)]

use std::net::SocketAddr;

use axum::Router;
use axum::http::{HeaderMap, Method};
use axum::response::Redirect;
use axum::routing::any;
use url::Url;
use windlass_sdk::{ErrorClass, HttpRequest};
use windlass_wasm::outside::http::HttpClient;
use windlass_wasm::{Checked, Credential, Grants, Network};
use zeroize::Zeroizing;

async fn serve(router: Router) -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

/// Says who it thinks it talks to.
fn echo() -> Router {
    let answer = |method: Method, headers: HeaderMap, body: String| async move {
        let authorized = headers
            .get("authorization")
            .map_or("nobody", |value| value.to_str().unwrap());
        format!("{method} {authorized} {body}")
    };
    Router::new().route("/echo", any(answer))
}

fn client() -> HttpClient {
    HttpClient::new(Network {
        loopback: true,
        ..Network::default()
    })
}

fn token() -> Credential {
    Credential::Bearer {
        token: Zeroizing::new("canary".into()),
    }
}

fn everywhere() -> Grants {
    Grants {
        any_host: true,
        ..Grants::default()
    }
}

fn post(url: &str) -> (HttpRequest, Checked) {
    let request = HttpRequest {
        method: "POST".into(),
        url: url.into(),
        body: Some(b"hello".to_vec()),
        ..HttpRequest::default()
    };
    let url = Url::parse(url).unwrap();
    let addresses = url.socket_addrs(|| None).unwrap();
    (request, Checked { url, addresses })
}

#[tokio::test]
async fn a_credential_stays_with_the_first_host() {
    let other = serve(echo()).await;
    let target = format!("http://{other}/echo");
    let away = move || async move { Redirect::to(&target) };
    let here = serve(
        echo()
            .route("/away", any(away))
            .route("/here", any(|| async { Redirect::temporary("/echo") })),
    )
    .await;

    let (request, url) = post(&format!("http://{here}/here"));
    let response = client()
        .send(&request, &url, Some(&token()), &everywhere(), 1000)
        .await
        .unwrap();
    assert_eq!(
        String::from_utf8(response.body).unwrap(),
        "POST Bearer canary hello"
    );

    let (request, url) = post(&format!("http://{here}/away"));
    let response = client()
        .send(&request, &url, Some(&token()), &everywhere(), 1000)
        .await
        .unwrap();
    assert_eq!(
        (response.status, String::from_utf8(response.body).unwrap()),
        (200, "GET nobody ".into())
    );
}

#[tokio::test]
async fn answers_and_redirects_have_an_end() {
    let big = Router::new()
        .route("/big", any(|| async { vec![0_u8; 100_000] }))
        .route("/round", any(|| async { Redirect::temporary("/round") }))
        .route(
            "/file",
            any(|| async { Redirect::temporary("file:///etc/passwd") }),
        );
    let here = serve(big).await;
    let fault = |path: &'static str| async move {
        let (request, url) = post(&format!("http://{here}/{path}"));
        client()
            .send(&request, &url, None, &everywhere(), 50_000)
            .await
            .unwrap_err()
    };
    assert_eq!(fault("big").await.reason, "ResponseTooLarge");
    assert_eq!(fault("round").await.reason, "TooManyRedirects");
    let file = fault("file").await;
    assert_eq!(
        (file.class, file.reason.as_str()),
        (ErrorClass::Denied, "UrlDenied")
    );
}

#[tokio::test]
async fn headers_that_are_the_hosts_to_set() {
    let (mut request, url) = post("http://127.0.0.1:1/");
    request.headers = vec![("Authorization".into(), "Bearer mine".into())];
    let fault = client()
        .send(&request, &url, None, &everywhere(), 1000)
        .await
        .unwrap_err();
    assert_eq!(fault.reason, "HeaderDenied");
}

#[tokio::test]
async fn a_server_that_is_not_there() {
    let (request, url) = post("http://127.0.0.1:1/?token=canary");
    let fault = client()
        .send(&request, &url, Some(&token()), &everywhere(), 1000)
        .await
        .unwrap_err();
    assert_eq!(
        (fault.class, fault.reason.as_str()),
        (ErrorClass::Unavailable, "HttpFailed")
    );
    assert!(!fault.message.contains("canary"), "{}", fault.message);
}
