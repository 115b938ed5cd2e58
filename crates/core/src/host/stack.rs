//! What software costs: the stages between the application and the driver, in processor time.

use std::collections::BTreeMap;

use crate::config;
use crate::report::Stage;
use crate::report::stage::Ledger;
use crate::time::{Span, Time};

/// One stage with its costs at the present core clock.
#[derive(Clone, Debug)]
struct Layer {
    stage: Stage,
    submit: Span,
    complete: Span,
    lock: Option<usize>,
}

/// The software stack of a drive, and the locks in it.
#[derive(Clone, Debug)]
pub struct Stack {
    layers: Vec<Layer>,
    copy_ps_per_byte: f64,
    /// When each lock is free. Holders know how long they hold it and come in order, so a time is all that is needed.
    locks: Vec<Time>,
}

impl Stack {
    /// The stack of this description; costs scale by `ratio` with the core clock.
    pub fn new(config: &config::Stack, ratio: f64) -> Stack {
        let mut names = BTreeMap::new();
        let mut layers = Vec::new();
        for (place, stage) in config.stages.iter().enumerate() {
            let lock = (!stage.lock.is_empty()).then(|| {
                let next = names.len();
                *names.entry(stage.lock.clone()).or_insert(next)
            });
            layers.push(Layer {
                stage: Stage::stack(place),
                submit: stage.submit.scale(ratio),
                complete: stage.complete.scale(ratio),
                lock,
            });
        }
        let rate = config.copy_bytes_per_ns;
        Stack {
            layers,
            copy_ps_per_byte: if rate > 0.0 { 1e3 / rate * ratio } else { 0.0 },
            locks: vec![Time::ZERO; names.len()],
        }
    }

    /// Walk a request down to the driver. Locks that are held make it wait, on its core.
    pub fn submit(&mut self, ledger: &mut Ledger) {
        for layer in &self.layers {
            if let Some(lock) = layer.lock {
                let free = self.locks[lock].max(ledger.cursor());
                ledger.until(layer.stage, free);
                self.locks[lock] = free + layer.submit;
            }
            ledger.spend(layer.stage, layer.submit);
        }
    }

    /// Walk a request back up, copying `bytes` on the way.
    pub fn complete(&self, bytes: u32, ledger: &mut Ledger) {
        if self.copy_ps_per_byte > 0.0 {
            ledger.spend(Stage::Copy, Span::from_ps((f64::from(bytes) * self.copy_ps_per_byte).round() as u64));
        }
        for layer in self.layers.iter().rev() {
            ledger.spend(layer.stage, layer.complete);
        }
    }
}
