//! Small file system on a modelled drive: a directory of eight files in the first page, and a region of the drive for each.
//!
//! A file's length becomes durable as in a file system with ordered data: a sync waits for the data, flushes it, and only then
//! writes the new length, which it flushes as well. So a power cut never shows a file with bytes that were not written yet. Space
//! that a deletion or truncation frees is used again only after a flush: until then, a power cut may bring the file back as it was.

use phaselink_embed::{Description, Drive, LegalImage, Misuse, Operation, Survival, Ticket};

/// Files that a volume holds.
const FILES: usize = 8;
/// Bytes of the directory, which has a block for each file.
const DIRECTORY_BYTES: u64 = FILES as u64 * ENTRY_BYTES as u64;
const ENTRY_BYTES: usize = 4096;
/// Longest name of a file.
const NAME_BYTES_MAX: usize = 255;
/// Most writes in flight, and writes after which the file system writes lengths back of its own accord.
const WRITES_MAX: usize = 32;
const WRITE_BACK_AFTER: u64 = 64;

/// Reason why a request of a volume has failed.
#[derive(Debug)]
pub(crate) enum VolumeError {
    /// Power has failed: the volume has to be opened anew.
    PowerFailed,
    /// The drive or its volume is full.
    Full,
    /// The drive reported an error, or could not carry the request out.
    Drive(String),
}

impl From<Misuse> for VolumeError {
    fn from(misuse: Misuse) -> VolumeError {
        VolumeError::Drive(misuse.to_string())
    }
}

/// File of a volume.
#[derive(Clone, Debug, Default)]
struct Entry {
    name: String,
    length: u64,
    /// Length that the directory on the drive has.
    written: u64,
    /// True if the directory on the drive has another state than this.
    is_changed: bool,
    /// True if a power cut may bring bytes back that were freed: the region is not written before a flush.
    has_freed: bool,
    writes: u64,
    /// Number of the open file that has locked this one.
    pub(crate) owner: Option<u64>,
}

/// Power cut, with the state that it has left.
#[derive(Debug)]
struct PowerCut {
    /// Number of requests before it, and the seed of its state.
    requests: u64,
    seed: u64,
    image: LegalImage,
    /// Files of that instant, with their places on the drive.
    files: String,
}

/// Drive with its files.
#[derive(Debug)]
pub(crate) struct Volume {
    drive: Drive,
    /// Name of the drive as the user gave it.
    pub(crate) drive_name: String,
    entries: [Entry; FILES],
    region_bytes: u64,
    writes: Vec<(Ticket, u64, u64)>,
    requests: u64,
    fails_at: Option<(u64, u64)>,
    has_failed: bool,
    last_cut: Option<PowerCut>,
    block: Vec<u8>,
}

impl Volume {
    /// Opens a volume on a new drive.
    pub(crate) fn new(drive_name: &str, settings: &[&str]) -> Result<Volume, String> {
        let mut description = Description::named(drive_name).map_err(|problems| problems.to_string())?;
        for setting in settings {
            description = description.with(setting).map_err(|problems| problems.to_string())?;
        }
        let drive = description.with_power_cuts().open().map_err(|problems| problems.to_string())?;
        let region_bytes = (drive.capacity_bytes() - DIRECTORY_BYTES) / FILES as u64 / 65_536 * 65_536;
        Ok(Volume {
            drive,
            drive_name: drive_name.into(),
            entries: Default::default(),
            region_bytes,
            writes: Vec::new(),
            requests: 0,
            fails_at: None,
            has_failed: false,
            last_cut: None,
            block: Vec::new(),
        })
    }

    pub(crate) fn drive(&self) -> &Drive {
        &self.drive
    }

    /// Lets power fail before so many more requests; the state that is left is drawn from `seed`.
    pub(crate) fn fail_power_after(&mut self, requests: u64, seed: u64) {
        self.fails_at = Some((self.requests + requests, seed));
    }

    /// Returns the files with their first bytes on the drive, as a sentence.
    fn files(&self) -> String {
        let files = self.entries.iter().enumerate().filter(|(_, entry)| !entry.name.is_empty());
        let files = files.map(|(number, entry)| format!("{} begins at {}", entry.name, self.place(number, 0)));
        format!("On the drive, {}; the directory is before them.", files.collect::<Vec<_>>().join(", "))
    }

    /// Returns a sentence for each write that the last power cut has taken or torn, with the rule that allowed it.
    pub(crate) fn explanation(&self) -> String {
        let Some(PowerCut { requests, seed, image, files }) = &self.last_cut else {
            return String::from("power has not failed: select phaselink_fail_power_after(REQUESTS, SEED)");
        };
        let mut lines = image.explanation();
        if lines.pop().is_none() {
            return format!(
                "nothing is missing after the power cut that came after {requests} requests, with seed {seed}"
            );
        }
        lines.push(files.clone());
        lines.push(format!(
            "To replay it, do the same on a new drive, earlier power cuts included: this one comes after {requests} requests, with \
             seed {seed}."
        ));
        lines.join("\n")
    }

    /// Turns power on again if it has failed, and reads the directory from the drive.
    pub(crate) fn restart(&mut self) {
        if !std::mem::take(&mut self.has_failed) {
            return;
        }
        for (number, entry) in self.entries.iter_mut().enumerate() {
            let mut bytes = [0; 8 + 1 + NAME_BYTES_MAX];
            let is_there = self.drive.peek(0, (number * ENTRY_BYTES) as u64, &mut bytes).is_ok();
            let name = bytes[9..9 + usize::from(bytes[8])].to_vec();
            let length = u64::from_le_bytes(bytes[..8].try_into().unwrap_or_default());
            *entry = match String::from_utf8(name) {
                Ok(name) if is_there && !name.is_empty() => Entry { name, length, written: length, ..Entry::default() },
                _ => Entry::default(),
            };
        }
    }

    fn begin(&mut self) -> Result<(), VolumeError> {
        if let Some((_, seed)) = self.fails_at.take_if(|(at, _)| self.requests >= *at) {
            self.has_failed = true;
            self.writes.clear();
            // First handle all events of this instant, so that the image drawn here equals the one that the power cut
            // leaves.
            self.drive.advance(self.drive.now())?;
            let image = self.drive.drawn_image(seed)?;
            self.last_cut = Some(PowerCut { requests: self.requests, seed, image, files: self.files() });
            self.drive.cut_power(self.drive.now(), Survival::Drawn { seed })?;
            while self.drive.next_completion().is_some() {}
        }
        self.requests += 1;
        if self.has_failed { Err(VolumeError::PowerFailed) } else { Ok(()) }
    }

    /// Number of a file, if there is one.
    pub(crate) fn find(&self, name: &str) -> Option<usize> {
        self.entries.iter().position(|entry| entry.name == name)
    }

    /// Returns the number of a file, which is created if need be.
    pub(crate) fn create(&mut self, name: &str) -> Result<usize, VolumeError> {
        if let Some(number) = self.find(name) {
            return Ok(number);
        }
        let is_short = (1..=NAME_BYTES_MAX).contains(&name.len());
        let free = self.entries.iter().position(|entry| entry.name.is_empty()).filter(|_| is_short);
        let number = free.ok_or(VolumeError::Full)?;
        let has_freed = self.entries[number].has_freed;
        self.entries[number] = Entry { name: name.into(), is_changed: true, has_freed, ..Entry::default() };
        Ok(number)
    }

    /// Deletes a file, durably or not.
    pub(crate) fn delete(&mut self, number: usize, is_durable: bool) -> Result<(), VolumeError> {
        self.entries[number] = Entry { is_changed: true, has_freed: true, ..Entry::default() };
        self.write_entry(number)?;
        if is_durable { self.flush() } else { Ok(()) }
    }

    pub(crate) fn length(&self, number: usize) -> u64 {
        self.entries[number].length
    }

    pub(crate) fn truncate(&mut self, number: usize, length: u64) -> Result<(), VolumeError> {
        let entry = &mut self.entries[number];
        (entry.length, entry.is_changed) = (length, true);
        if length >= entry.written {
            return Ok(());
        }
        entry.has_freed = true;
        self.write_entry(number)
    }

    /// Locks a file for an open file, or shows that another one has locked it.
    pub(crate) fn lock(&mut self, number: usize, owner: u64) -> bool {
        *self.entries[number].owner.get_or_insert(owner) == owner
    }

    pub(crate) fn unlock(&mut self, number: usize, owner: u64) {
        self.entries[number].owner.take_if(|held| *held == owner);
    }

    pub(crate) fn is_locked_by_another(&self, number: usize, owner: u64) -> bool {
        self.entries[number].owner.is_some_and(|held| held != owner)
    }

    fn place(&self, number: usize, offset: u64) -> u64 {
        DIRECTORY_BYTES + number as u64 * self.region_bytes + offset
    }

    /// Makes the data and the length of a file durable.
    pub(crate) fn sync(&mut self, number: usize) -> Result<(), VolumeError> {
        self.wait_for_writes(0, u64::MAX)?;
        self.flush()?;
        if self.entries[number].is_changed {
            self.write_entry(number)?;
            self.flush()?;
        }
        Ok(())
    }

    /// Writes a file's entry of the directory, without a flush.
    fn write_entry(&mut self, number: usize) -> Result<(), VolumeError> {
        let Entry { name, length, .. } = &self.entries[number];
        let mut bytes = [0; ENTRY_BYTES];
        bytes[..8].copy_from_slice(&length.to_le_bytes());
        bytes[8] = name.len() as u8;
        bytes[9..9 + name.len()].copy_from_slice(name.as_bytes());
        // The first block of an entry holds all of it, and a block is written atomically.
        let block_bytes = (self.drive.block_bytes() as usize).max(512);
        self.write_bytes((number * ENTRY_BYTES) as u64, &bytes[..block_bytes.min(ENTRY_BYTES)])?;
        let entry = &mut self.entries[number];
        (entry.written, entry.is_changed, entry.writes) = (entry.length, false, 0);
        Ok(())
    }

    pub(crate) fn write(&mut self, number: usize, offset: u64, data: &[u8]) -> Result<(), VolumeError> {
        let end = offset.checked_add(data.len() as u64).filter(|end| *end <= self.region_bytes);
        let end = end.ok_or(VolumeError::Full)?;
        if self.entries[number].has_freed {
            self.flush()?;
        }
        self.write_bytes(self.place(number, offset), data)?;
        let entry = &mut self.entries[number];
        entry.is_changed |= end > entry.length;
        entry.length = entry.length.max(end);
        entry.writes += 1;
        if entry.is_changed && entry.writes >= WRITE_BACK_AFTER {
            self.flush()?;
            self.write_entry(number)?;
        }
        Ok(())
    }

    fn write_bytes(&mut self, offset: u64, data: &[u8]) -> Result<(), VolumeError> {
        self.begin()?;
        let (start, end) = self.blocks(offset, data.len());
        self.wait_for_writes(start, end)?;
        while self.writes.len() >= WRITES_MAX {
            let (ticket, ..) = self.writes.remove(0);
            self.wait(ticket)?;
        }
        self.block.resize((end - start) as usize, 0);
        self.drive.peek(0, start, &mut self.block)?;
        let place = (offset - start) as usize;
        self.block[place..place + data.len()].copy_from_slice(data);
        let ticket = self.drive.submit(self.drive.now(), 0, Operation::write(start, &self.block))?;
        self.writes.push((ticket, start, end));
        Ok(())
    }

    /// Reads bytes of a file; those behind its end are zeros, and the number of those before is returned.
    pub(crate) fn read(&mut self, number: usize, offset: u64, into: &mut [u8]) -> Result<usize, VolumeError> {
        self.begin()?;
        let left = self.entries[number].length.saturating_sub(offset).min(into.len() as u64) as usize;
        into[left..].fill(0);
        if left == 0 {
            return Ok(0);
        }
        let at = self.place(number, offset);
        let (start, end) = self.blocks(at, left);
        self.wait_for_writes(start, end)?;
        let ticket = self.drive.submit(self.drive.now(), 0, Operation::read(start, (end - start) as u32))?;
        let done = self.drive.wait(ticket)?;
        if !done.status().is_success() {
            return Err(VolumeError::Drive(done.status().to_string()));
        }
        let place = (at - start) as usize;
        into[..left].copy_from_slice(&done.data()[place..place + left]);
        Ok(left)
    }

    /// Range of whole blocks around a range of bytes.
    fn blocks(&self, offset: u64, bytes: usize) -> (u64, u64) {
        let block_bytes = u64::from(self.drive.block_bytes());
        (offset / block_bytes * block_bytes, (offset + bytes as u64).next_multiple_of(block_bytes))
    }

    fn wait(&mut self, ticket: Ticket) -> Result<(), VolumeError> {
        let status = self.drive.wait(ticket)?.status();
        if status.is_success() { Ok(()) } else { Err(VolumeError::Drive(status.to_string())) }
    }

    fn wait_for_writes(&mut self, start: u64, end: u64) -> Result<(), VolumeError> {
        while let Some(place) = self.writes.iter().position(|(_, from, until)| *from < end && start < *until) {
            let (ticket, ..) = self.writes.remove(place);
            self.wait(ticket)?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), VolumeError> {
        self.wait_for_writes(0, u64::MAX)?;
        self.begin()?;
        if self.drive.is_volatile() {
            let ticket = self.drive.submit(self.drive.now(), 0, Operation::flush())?;
            self.wait(ticket)?;
        }
        self.entries.iter_mut().for_each(|entry| entry.has_freed = false);
        Ok(())
    }

    /// Returns virtual time, operations and their stages as a text.
    pub(crate) fn report(&self) -> String {
        let mut text = format!("{}: {:.1} us", self.drive_name, self.drive.now().as_ns() / 1000.0);
        for row in self.drive.summary() {
            let (name, count, mean) = (row.kind.name(), row.operations, row.mean.as_us());
            let noun = match (name, count) {
                (_, 1) => String::from(name),
                ("flush", _) => String::from("flushes"),
                _ => format!("{name}s"),
            };
            text += &format!("\n{count} {noun}, {mean:.2} us each");
            let mut stages = row.stages;
            stages.sort_by_key(|(_, span)| std::cmp::Reverse(*span));
            for (stage, span) in stages.iter().take(4) {
                text += &format!(", {stage} {:.2} us", span.as_us() / count as f64);
            }
        }
        text
    }
}
