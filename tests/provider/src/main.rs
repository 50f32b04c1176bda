//! `pulumi-resource-windlasstest`: a provider whose resources do on request what real ones do by misfortune.

mod service;

use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;

/// Generated messages.
mod proto {
    #![allow(clippy::all)]
    tonic::include_proto!("pulumirpc");
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    // The engine reads the port from the first line.
    println!("{}", listener.local_addr()?.port());
    let service =
        proto::resource_provider_server::ResourceProviderServer::new(service::Provider::default())
            .max_decoding_message_size(512 << 20)
            .max_encoding_message_size(512 << 20);
    // It ends by the engine's signal. One whose engine was killed lives on: that is what tests of orphans need.
    tonic::transport::Server::builder()
        .add_service(service)
        .serve_with_incoming(TcpListenerStream::new(listener))
        .await?;
    Ok(())
}
