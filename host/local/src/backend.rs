//! Which backend a Stack uses.

use windlass_api::Stack;

use crate::db::{Db, DbError};
use crate::environment::environment;

/// Where the CLI keeps state if nobody says otherwise.
const PULUMI_CLOUD: &str = "https://api.pulumi.com";

/// The backend's URL: `spec.backend`, else what the workspace's environment says, else Pulumi Cloud.
pub fn url(db: &Db, stack: &Stack) -> Result<String, DbError> {
    if let Some(url) = &stack.spec.backend {
        return Ok(url.clone());
    }
    Ok(environment(db, stack)?
        .remove("PULUMI_BACKEND_URL")
        .unwrap_or_else(|| PULUMI_CLOUD.to_owned()))
}
