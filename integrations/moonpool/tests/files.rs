//! Files on a drive as an application expects them, in moonpool's harness.

use std::io::{self, SeekFrom};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use futures::io::{AsyncReadExt, AsyncSeekExt, AsyncWriteExt};
use moonpool_core::{OpenOptions, StorageFile, StorageProvider};
use moonpool_sim::{SimContext, SimTimeProvider, SimulationBuilder, SimulationResult, TimeProvider, Workload};
use phaselink_embed::Description;
use phaselink_moonpool::DriveStorage;

type Storage = DriveStorage<SimTimeProvider>;

/// Workload that runs a check on the storage of a drive.
struct Check<F>(&'static str, F, Arc<Mutex<bool>>);

#[async_trait]
impl<F, R> Workload for Check<F>
where
    F: Fn(Storage, SimTimeProvider) -> R + Send + Sync + 'static,
    R: Future<Output = io::Result<()>> + Send,
{
    fn name(&self) -> &str {
        "check"
    }

    async fn run(&mut self, context: &SimContext) -> SimulationResult<()> {
        let description = Description::shipped(self.0).unwrap();
        let storage = DriveStorage::open(&description, context.time().clone()).unwrap();
        (self.1)(storage, context.time().clone()).await.unwrap();
        *self.2.lock().unwrap() = true;
        Ok(())
    }
}

fn check<F, R>(drive: &'static str, run: F)
where
    F: Fn(Storage, SimTimeProvider) -> R + Send + Sync + 'static,
    R: Future<Output = io::Result<()>> + Send,
{
    let has_ended = Arc::new(Mutex::new(false));
    let check = Check(drive, run, has_ended.clone());
    let report = SimulationBuilder::new().workload(check).set_iterations(1).set_debug_seeds(vec![1]).run();
    assert!(report.failed_runs == 0 && *has_ended.lock().unwrap(), "{report:?}");
}

async fn contents(storage: &Storage, path: &str) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    storage.open(path, OpenOptions::read_only()).await?.read_to_end(&mut bytes).await?;
    Ok(bytes)
}

async fn write(storage: &Storage, path: &str, bytes: &[u8]) -> io::Result<()> {
    let mut file = storage.open(path, OpenOptions::create_write()).await?;
    file.write_all(bytes).await?;
    file.sync_all().await
}

#[test]
fn written_bytes_read_back_and_holes_read_as_zeros() {
    check("optane-p5800x", |storage, _| async move {
        let options = OpenOptions::new().read(true).write(true).create(true);
        let mut file = storage.open("a", options).await?;
        file.write_all(b"0123456789").await?;
        file.seek(SeekFrom::Start(4)).await?;
        file.write_all(b"xy").await?;
        let mut found = [0; 2];
        file.read_exact(&mut found).await?;
        assert_eq!(&found, b"67");
        file.seek(SeekFrom::End(3000)).await?;
        file.write_all(b"end").await?;
        let mut expected = b"0123xy6789".to_vec();
        expected.resize(3010, 0);
        expected.extend(b"end");
        assert!(contents(&storage, "a").await? == expected);
        file.set_len(5).await?;
        file.set_len(7).await?;
        assert_eq!(contents(&storage, "a").await?, b"0123x\0\0");
        assert_eq!(file.size().await?, 7);
        assert_eq!(file.seek(SeekFrom::Current(-9999)).await.unwrap_err().kind(), io::ErrorKind::InvalidInput);
        Ok(())
    });
}

#[test]
fn large_writes_appends_and_open_options_work() {
    check("tlc-gen4", |storage, _| async move {
        let bytes: Vec<u8> = (0..300_001u32).map(|at| (at * 7) as u8).collect();
        write(&storage, "large", &bytes).await?;
        assert!(contents(&storage, "large").await? == bytes);
        let mut file = storage.open("large", OpenOptions::new().append(true)).await?;
        file.write_all(b"more").await?;
        assert!(contents(&storage, "large").await?.ends_with(b"more"));
        assert_eq!(file.read(&mut [0; 4]).await.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        let mut read_only = storage.open("large", OpenOptions::read_only()).await?;
        assert_eq!(read_only.write(b"x").await.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        let exists = storage.open("large", OpenOptions::create_new_write()).await.err().expect("an error");
        assert_eq!(exists.kind(), io::ErrorKind::AlreadyExists);
        let missing = storage.open("small", OpenOptions::read_only()).await.err().expect("an error");
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
        write(&storage, "large", b"").await?;
        assert_eq!(contents(&storage, "large").await?, b"");
        storage.delete("large").await?;
        assert!(!storage.exists("large").await?);
        Ok(())
    });
}

#[test]
fn rename_is_atomic_across_a_power_cut() {
    check("tlc-gen4", |storage, time| async move {
        let mut storage = storage;
        write(&storage, "a", b"first").await?;
        for seed in 0..40 {
            write(&storage, "b", format!("value {seed}").as_bytes()).await?;
            storage.rename("b", "a").await?;
            assert!(!storage.exists("b").await?);
            storage = storage.boot(time.clone(), seed)?;
            assert_eq!(contents(&storage, "a").await?, format!("value {seed}").as_bytes());
            assert!(!storage.exists("b").await?);
        }
        Ok(())
    });
}

#[test]
fn file_operations_take_the_drives_time() {
    let time_of = |drive: &'static str| {
        let took = Arc::new(Mutex::new(0));
        let noted = took.clone();
        check(drive, move |storage, time| {
            let noted = noted.clone();
            async move {
                let before = time.now();
                write(&storage, "a", &[1; 4096]).await?;
                *noted.lock().unwrap() = (time.now() - before).as_micros();
                Ok(())
            }
        });
        let took = *took.lock().unwrap();
        took
    };
    let (flash, optane) = (time_of("tlc-gen4"), time_of("optane-p5800x"));
    assert!(flash > 1000 && optane < 100, "a write with its sync takes {flash} us and {optane} us");
}
