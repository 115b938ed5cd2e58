//! Client of the device in shared memory, for Python.

use std::io;
use std::path::PathBuf;
use std::sync::Mutex;

use phaselink_client::{self as native, Options};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// Connection to a device.
#[pyclass(frozen, module = "phaselink._native")]
#[derive(Debug)]
pub struct Client(Mutex<Option<native::Client>>);

/// Queue pair, for one thread at a time.
#[pyclass(frozen, module = "phaselink._native")]
#[derive(Debug)]
pub struct Queue(Mutex<Option<native::Queue>>);

/// Calls `use_it` with the locked value. Fails if the value has been closed or another thread uses it.
fn with<T, R>(place: &Mutex<Option<T>>, what: &str, use_it: impl FnOnce(&mut T) -> R) -> PyResult<R> {
    let mut held = place.try_lock().map_err(|_| PyRuntimeError::new_err(format!("another thread uses this {what}")))?;
    held.as_mut().map(use_it).ok_or_else(|| PyValueError::new_err(format!("this {what} is closed")))
}

fn closed<T>(place: &Mutex<Option<T>>, what: &str) -> PyResult<()> {
    let mut held = place.try_lock().map_err(|_| PyRuntimeError::new_err(format!("another thread uses this {what}")))?;
    *held = None;
    Ok(())
}

#[pymethods]
impl Client {
    #[new]
    fn new(py: Python<'_>, path: PathBuf, queues: u32, depth: u32, writes: bool) -> PyResult<Client> {
        let options = Options { queues, depth, writes, ..Options::default() };
        let client = py.detach(|| native::Client::connect(&path, &options))?;
        Ok(Client(Mutex::new(Some(client))))
    }

    #[getter]
    fn capacity_bytes(&self) -> PyResult<u64> {
        with(&self.0, "connection", |client| client.capacity_bytes())
    }

    #[getter]
    fn block_bytes(&self) -> PyResult<u32> {
        with(&self.0, "connection", |client| client.block_bytes())
    }

    /// Returns the next queue.
    fn queue(&self) -> PyResult<Queue> {
        let queue = with(&self.0, "connection", native::Client::take_queue)?;
        let queue = queue.ok_or_else(|| PyValueError::new_err("all queues of this connection are taken"))?;
        Ok(Queue(Mutex::new(Some(queue))))
    }

    fn close(&self) -> PyResult<()> {
        closed(&self.0, "connection")
    }
}

#[pymethods]
impl Queue {
    fn read(&self, py: Python<'_>, offset: u64, length: usize) -> PyResult<Py<PyBytes>> {
        let bytes = py.detach(|| {
            with(&self.0, "queue", |queue| -> io::Result<Vec<u8>> {
                let mut bytes = vec![0; length];
                queue.read(offset, &mut bytes)?;
                Ok(bytes)
            })
        })??;
        Ok(PyBytes::new(py, &bytes).unbind())
    }

    fn write(&self, py: Python<'_>, offset: u64, data: Vec<u8>) -> PyResult<()> {
        Ok(py.detach(|| with(&self.0, "queue", |queue| queue.write(offset, &data)))??)
    }

    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        Ok(py.detach(|| with(&self.0, "queue", native::Queue::flush))??)
    }

    fn close(&self) -> PyResult<()> {
        closed(&self.0, "queue")
    }
}
