//! How the workspace gets the backend's token, between the adapter's answer and the request to the agent.

use windlass_api::Stack;
use windlass_api::intent::RunIntent;
use windlass_api::run::LoginExchange;
use windlass_core::failure::{Failure, FailureClass};
use windlass_core::snapshot::Session;
use windlass_engine::TaskInput;
use windlass_sdk::Login;

use crate::place::Place;
use crate::tasks::PlaceTasks;

pub(crate) fn exchange(login: Login) -> Option<LoginExchange> {
    match login {
        Login::None => None,
        Login::Exchange {
            audience,
            url,
            form,
        } => Some(LoginExchange {
            audience,
            url,
            form,
        }),
    }
}

impl<P: Place> PlaceTasks<P> {
    /// Whoever can write an Update could send a workspace's token anywhere: only what the adapter says itself, within
    /// the administrator's policy, is carried out.
    pub(crate) async fn login_is_the_adapters(
        &self,
        input: &TaskInput,
        stack: &Stack,
        intent: &RunIntent,
    ) -> Result<(), Failure> {
        if intent.login.is_none() {
            return Ok(());
        }
        // The name is canonical: its middle part is the project.
        let project = match intent.stack.split('/').collect::<Vec<_>>()[..] {
            [_, project, _] => Some(project),
            _ => None,
        };
        let Session { login, .. } = self.open(input, stack, project).await?;
        if login == intent.login {
            return Ok(());
        }
        Err(Failure::new(
            FailureClass::Invalid,
            "LoginChanged",
            "the login that the Update names is not the one that the backend's adapter gives for this Stack now",
        ))
    }
}
