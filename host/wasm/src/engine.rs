//! The one wasmtime engine of the process, and its clock.

use std::time::Duration;

use wasmtime::{Config, Engine, InstanceAllocationStrategy, PoolingAllocationConfig};

/// Length of an epoch: the resolution of CPU limits.
pub const TICK: Duration = Duration::from_millis(5);

/// Instances that can live at the same time.
const INSTANCES: u32 = 32;

/// Sum of memories of one instance, the ceiling of [`crate::Limits::memory_bytes`].
const MEMORY: usize = 64 << 20;

fn config(pooling: bool) -> Config {
    let mut config = Config::new();
    config.epoch_interruption(true);
    config.wasm_component_model(true);
    config.concurrency_support(false);
    config.max_wasm_stack(512 << 10);
    if pooling {
        let mut pool = PoolingAllocationConfig::default();
        pool.total_component_instances(INSTANCES);
        // A language with a library of its own is made of some forty of them.
        pool.total_core_instances(INSTANCES * 16);
        pool.total_memories(INSTANCES * 2);
        pool.total_tables(INSTANCES * 4);
        pool.max_memory_size(MEMORY);
        pool.table_elements(20_000);
        pool.linear_memory_keep_resident(64 << 10);
        pool.table_keep_resident(16 << 10);
        pool.max_unused_warm_slots(16);
        config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
    }
    config
}

/// An engine whose epoch goes on until the last clone of it is dropped.
///
/// # Errors
/// wasmtime's, if neither the pooling nor the plain allocator can be had.
pub fn engine() -> wasmtime::Result<Engine> {
    // Pooling reserves address space that not every machine has.
    let engine = Engine::new(&config(true)).or_else(|_| Engine::new(&config(false)))?;
    let weak = engine.weak();
    // A thread of its own: a busy runtime would bunch the ticks and end innocent calls.
    std::thread::Builder::new()
        .name("wasm-epoch".into())
        .spawn(move || {
            while let Some(engine) = weak.upgrade() {
                engine.increment_epoch();
                drop(engine);
                std::thread::sleep(TICK);
            }
        })?;
    Ok(engine)
}

/// Epochs in a CPU limit.
pub fn ticks(cpu_ms: u64) -> u64 {
    cpu_ms.div_ceil(u64::try_from(TICK.as_millis()).unwrap_or(1)) + 1
}
