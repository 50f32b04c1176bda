//! `GET /programs/NAMESPACE/NAME/GENERATION`: the archive of a Program. Every replica answers, from what it watches.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::{HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use windlass_api::Program;
use windlass_engine::Key;

use crate::metrics::{CodeLabels, Counters};
use crate::programs::archive::Archive;
use crate::watch::Readiness;
use crate::world::World;

/// How long a request waits for a generation that this replica has not seen yet: the status that names it was written
/// by another.
const PATIENCE: Duration = Duration::from_secs(2);

#[derive(Clone)]
struct Served {
    world: Arc<World>,
    readiness: Arc<Readiness>,
    counters: Counters,
}

/// Serves the Programs of a world.
pub fn router(world: Arc<World>, readiness: Arc<Readiness>, counters: Counters) -> Router {
    Router::new()
        .route("/programs/{namespace}/{name}/{generation}", get(serve))
        .with_state(Served {
            world,
            readiness,
            counters,
        })
}

async fn serve(
    State(served): State<Served>,
    Path((namespace, name, generation)): Path<(String, String, String)>,
) -> Response {
    let response = match find(&served, &namespace, &name, &generation).await {
        Ok(archive) => respond(&archive),
        Err((code, why)) => (code, why).into_response(),
    };
    let code = response.status().as_u16();
    served
        .counters
        .artifact_requests
        .get_or_create(&CodeLabels { code })
        .inc();
    response
}

async fn find(
    served: &Served,
    namespace: &str,
    name: &str,
    generation: &str,
) -> Result<Archive, (StatusCode, &'static str)> {
    let generation: i64 = generation
        .parse()
        .ok()
        .filter(|generation| *generation > 0)
        .ok_or((
            StatusCode::BAD_REQUEST,
            "the path is /programs/NAMESPACE/NAME/GENERATION, the generation a number\n",
        ))?;
    if !served.readiness.is_ready() {
        return Err((
            StatusCode::SERVICE_UNAVAILABLE,
            "watches have not listed yet\n",
        ));
    }
    let found = tokio::time::timeout(
        PATIENCE,
        current(&served.world, namespace, name, generation),
    );
    let program = found.await.unwrap_or_default();
    program
        .and_then(|program| {
            let key = Key::new(namespace, name);
            served.world.archives.get(&program, &key, generation)
        })
        .ok_or((
            StatusCode::NOT_FOUND,
            "there is no such Program, or not at this generation\n",
        ))
}

/// The Program, once it is at least at this generation. None: there is none.
async fn current(
    world: &World,
    namespace: &str,
    name: &str,
    generation: i64,
) -> Option<Arc<Program>> {
    loop {
        let news = world.archives.news();
        let program = world.programs.get(namespace, name)?;
        if program.metadata.generation.unwrap_or_default() >= generation {
            return Some(program);
        }
        news.await;
    }
}

fn respond(archive: &Archive) -> Response {
    let headers: [(HeaderName, String); 2] = [
        (header::CONTENT_TYPE, "application/gzip".to_owned()),
        (header::ETAG, format!("\"{}\"", archive.digest)),
    ];
    (headers, Bytes::from_owner(Arc::clone(&archive.bytes))).into_response()
}
