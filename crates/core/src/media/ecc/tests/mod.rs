mod bch;
mod endurance;
mod faults;
mod sector;
