//! Bindings to `wit/`, one set of imports for all worlds, and to the few WASI interfaces that are stubbed.

#[allow(clippy::all)]
pub mod imports {
    wasmtime::component::bindgen!({
        path: "../../wit",
        world: "imports",
        imports: { default: trappable },
        with: {
            "windlass:plugin/credentials.secret": crate::guest::handles::SecretHandle,
            "windlass:plugin/credentials.credential": crate::guest::handles::CredentialHandle,
        },
    });
}

#[allow(clippy::all)]
pub mod source {
    wasmtime::component::bindgen!({
        path: "../../wit",
        world: "source-plugin",
        imports: { default: trappable },
        with: {
            "windlass:plugin/types": super::imports::windlass::plugin::types,
            "windlass:plugin/log": super::imports::windlass::plugin::log,
            "windlass:plugin/config": super::imports::windlass::plugin::config,
            "windlass:plugin/credentials": super::imports::windlass::plugin::credentials,
            "windlass:plugin/secrets": super::imports::windlass::plugin::secrets,
            "windlass:plugin/kube": super::imports::windlass::plugin::kube,
            "windlass:plugin/http": super::imports::windlass::plugin::http,
            "windlass:plugin/git": super::imports::windlass::plugin::git,
            "windlass:plugin/cache": super::imports::windlass::plugin::cache,
        },
    });
}

#[allow(clippy::all)]
pub mod backend {
    wasmtime::component::bindgen!({
        path: "../../wit",
        world: "backend-plugin",
        imports: { default: trappable },
        with: {
            "windlass:plugin/types": super::imports::windlass::plugin::types,
            "windlass:plugin/log": super::imports::windlass::plugin::log,
            "windlass:plugin/config": super::imports::windlass::plugin::config,
            "windlass:plugin/credentials": super::imports::windlass::plugin::credentials,
            "windlass:plugin/secrets": super::imports::windlass::plugin::secrets,
            "windlass:plugin/kube": super::imports::windlass::plugin::kube,
            "windlass:plugin/http": super::imports::windlass::plugin::http,
            "windlass:plugin/git": super::imports::windlass::plugin::git,
            "windlass:plugin/cache": super::imports::windlass::plugin::cache,
        },
    });
}

#[allow(clippy::all)]
pub mod health {
    wasmtime::component::bindgen!({
        path: "../../wit",
        world: "health-plugin",
        imports: { default: trappable },
        with: {
            "windlass:plugin/types": super::imports::windlass::plugin::types,
            "windlass:plugin/log": super::imports::windlass::plugin::log,
            "windlass:plugin/config": super::imports::windlass::plugin::config,
            "windlass:plugin/credentials": super::imports::windlass::plugin::credentials,
            "windlass:plugin/secrets": super::imports::windlass::plugin::secrets,
            "windlass:plugin/kube": super::imports::windlass::plugin::kube,
            "windlass:plugin/http": super::imports::windlass::plugin::http,
            "windlass:plugin/git": super::imports::windlass::plugin::git,
            "windlass:plugin/cache": super::imports::windlass::plugin::cache,
        },
    });
}

#[allow(clippy::all)]
pub mod wasi {
    wasmtime::component::bindgen!({
        path: "wit",
        world: "stubs",
        imports: { default: trappable },
        with: {
            "wasi:io/error.error": crate::guest::handles::IoError,
            "wasi:io/poll.pollable": crate::guest::handles::Pollable,
            "wasi:io/streams.input-stream": crate::guest::handles::Input,
            "wasi:io/streams.output-stream": crate::guest::handles::Output,
            "wasi:cli/terminal-input.terminal-input": crate::guest::handles::Terminal,
            "wasi:cli/terminal-output.terminal-output": crate::guest::handles::Terminal,
        },
    });
}
