//! The drives that come with the program.

/// A drive file that is part of the program.
#[derive(Clone, Copy, Debug)]
pub struct Shipped {
    /// What `preset` and the command line call it.
    pub name: &'static str,
    /// Its file in the repository.
    pub file: &'static str,
    /// The file's text.
    pub text: &'static str,
}

macro_rules! shipped {
    ($($name:literal)+) => {
        &[$(Shipped {
            name: $name,
            file: concat!("drives/", $name, ".toml"),
            text: include_str!(concat!("../../../../drives/", $name, ".toml")),
        }),+]
    };
}

/// All of them.
pub const ALL: &[Shipped] = shipped! {
    "dc-express"
    "dc-express-block"
    "disk-raid"
    "fusion-io"
    "moneta"
    "moneta-4x"
    "moneta-block"
    "nvme"
    "nvme-polled"
    "nvm-model-block"
    "nvm-model-dram"
    "pss"
    "pss-4-cards"
    "pss-block"
    "onyx"
    "ssd-raid"
    "capi"
    "cxl"
    "capi-pcm-legacy"
    "capi-pcm-next"
    "cxl-pcm-legacy"
    "cxl-pcm-next"
    "pcie-pcm-legacy"
    "pcie-pcm-next"
    "nvme-ssd-gen3"
};

/// Their names.
pub fn names() -> impl Iterator<Item = &'static str> {
    ALL.iter().map(|drive| drive.name)
}

/// The drive of this name.
pub fn find(name: &str) -> Option<&'static Shipped> {
    ALL.iter().find(|drive| drive.name == name)
}
