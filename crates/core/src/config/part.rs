//! Parts of a drive that keys need: without the part, such a key has no effect.

/// Part of a drive without which certain keys have no effect. The row of such a key names the part after `needs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Switch in front of drives, or between several hosts and one device.
    Switch,
    /// DMA engine that transfers occupy in turn.
    DmaTurns,
    /// I/O engines of the software stack.
    Engines,
    /// Software stack that does not depend on the I/O engine.
    SoftwareAlone,
    /// Flash translation layer.
    Translation,
    /// Flash cells, with or without a translation layer.
    Flash,
    /// Second bit of each flash cell.
    SecondBit,
    /// Third bit of each flash cell.
    ThirdBit,
    /// Victim policy of garbage collection that chooses among random blocks.
    RandomChoices,
    /// Flash blocks that are used with one bit a cell, as a cache of writes.
    SlcCache,
    /// Commands that take time of the drive's processor cores.
    CommandCores,
    /// Acknowledgement of writes before they are in the memory cells.
    EarlyAcknowledge,
    /// Sustained rate of operations of a volume.
    OperationRate,
    /// Sustained bandwidth of a volume.
    Bandwidth,
    /// Sustained rate of a volume, of operations or bytes.
    VolumeRate,
    /// Limit of a volume that counts operations by their size.
    SizedOperations,
    /// Bucket of burst credits of a volume.
    Credits,
}
