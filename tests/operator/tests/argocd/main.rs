//! The real Argo CD beside the operator: what it syncs, what it waits for, what it deletes, and what it has to process.
#![allow(clippy::unwrap_used)]

mod actions;
mod churn;
mod deletion;
mod examples;
mod fleet;
mod support;
mod walk;
mod waves;

use windlass_operator::argocd::Delivery;

#[tokio::test(flavor = "multi_thread")]
async fn a_wave_waits_for_its_stack() {
    let Some(delivery) = Delivery::start().await else {
        return;
    };
    waves::a_wave_waits_while_its_stack_is_suspended(&delivery).await;
}

/// One Argo CD for all of it: to start one takes longer than what most of these take.
#[tokio::test(flavor = "multi_thread")]
async fn argo_cd_brings_stacks_waits_for_them_and_takes_them_away() {
    let Some(delivery) = Delivery::start().await else {
        return;
    };
    let steady = churn::begin(&delivery).await;
    tokio::join!(
        waves::a_wave_waits_while_its_stack_is_tried_again(&delivery),
        waves::a_stack_that_stalls_ends_the_sync_until_it_is_mended(&delivery),
        deletion::in_the_background(&delivery),
        deletion::in_the_foreground(&delivery),
    );
    tokio::join!(
        walk::from_nothing_to_a_synced_stack_and_back(&delivery),
        fleet::environments_come_and_go(&delivery),
        fleet::a_project_confines(&delivery),
        waves::a_moved_branch_is_a_promotion(&delivery),
        actions::through_the_api_server(&delivery),
        examples::do_what_they_promise(&delivery),
    );
    steady.end(&delivery).await;
}
