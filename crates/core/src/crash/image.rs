//! State of the drive after a power failure (crash image), and its name such as `cut=120,missing=57,torn=58:0-3`.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;

use crate::number::index;
use crate::problem::Problem;

use super::recording::Recording;
use super::timeline::CutTimeline;

/// State of the drive after a power failure: every request that had arrived is present, except for the losses.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Image {
    /// Cut: number of recorded events that had happened when the power failed.
    pub cut: usize,
    /// Requests of the recording that the power failure has lost, by index, each with the part that is lost.
    pub lost: BTreeMap<usize, RequestLoss>,
}

/// Extent to which a request is lost: all of it, or all but some pieces.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RequestLoss {
    /// Whole request is lost.
    All,
    /// All pieces of the request are lost except these, at least one. The inclusive ranges ascend with gaps between
    /// them.
    AllBut(Vec<(u32, u32)>),
}

impl RequestLoss {
    /// Returns the extent to which a request is lost. `there` says for each piece if it survives; `None` if all pieces
    /// do.
    pub fn of_surviving_pieces(there: impl IntoIterator<Item = bool>) -> Option<RequestLoss> {
        let (mut kept, mut pieces) = (Vec::<(u32, u32)>::new(), 0);
        for (piece, is_there) in (0..).zip(there) {
            pieces += 1;
            match kept.last_mut() {
                _ if !is_there => {}
                Some((_, last)) if *last + 1 == piece => *last = piece,
                _ => kept.push((piece, piece)),
            }
        }
        match kept[..] {
            [] => Some(RequestLoss::All),
            [(0, last)] if last + 1 == pieces => None,
            _ => Some(RequestLoss::AllBut(kept)),
        }
    }
}

const ALLOWED: &str = "as in cut=120,missing=57,torn=58:0-3, with numbers of the recording";

impl Image {
    /// Returns the crash image of a power failure at this cut in which nothing is lost.
    pub fn whole(cut: usize) -> Image {
        Image { cut, lost: BTreeMap::new() }
    }

    /// Parses the name of a crash image, such as `cut=120,missing=57`.
    ///
    /// # Errors
    /// If the name is malformed, or no power cut during the recording can leave this crash image.
    pub fn parse(text: &str, recording: &Recording, timeline: &CutTimeline) -> Result<Image, Problem> {
        let wrong = |found: String| Problem::new("--image", None, found, ALLOWED);
        let image =
            parse_crash_image_name(text, recording, timeline).ok_or_else(|| wrong(format!("{text} is no image")))?;
        image.check(recording, timeline).map_err(wrong)?;
        Ok(image)
    }
}

fn parse_crash_image_name(text: &str, recording: &Recording, timeline: &CutTimeline) -> Option<Image> {
    let mut words = text.split(',');
    let mut image = Image::whole(words.next()?.strip_prefix("cut=")?.parse().ok()?);
    for word in words {
        match word.split_once('=')? {
            ("missing", numbers) => {
                let numbers = range(numbers)?;
                let places = (*numbers.start() as usize).checked_sub(1)?..index(*numbers.end());
                if places.len() == 1 {
                    image.lost.insert(places.start, RequestLoss::All);
                    continue;
                }
                // A range of numbers selects only the requests in it that can be missing.
                let places = places.start..places.end.min(recording.requests.len());
                let open =
                    places.filter(|&place| recording.requests[place].is_change() && timeline.is_open(place, image.cut));
                image.lost.extend(open.map(|place| (place, RequestLoss::All)));
            }
            ("torn", torn) => {
                let (number, there) = torn.split_once(':')?;
                let there: Option<Vec<_>> =
                    there.split('+').map(|part| range(part).map(|range| (*range.start(), *range.end()))).collect();
                image.lost.insert(number.parse::<usize>().ok()?.checked_sub(1)?, RequestLoss::AllBut(there?));
            }
            _ => return None,
        }
    }
    Some(image)
}

/// Parses a number or an inclusive range of numbers, such as `7` or `7-9`.
fn range(text: &str) -> Option<RangeInclusive<u32>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let range = first.parse().ok()?..=last.parse().ok()?;
    (!range.is_empty() && *range.end() < u32::MAX).then_some(range)
}

impl Image {
    /// Returns the name of this crash image. Missing requests are joined to a range if no request between them could be
    /// present.
    pub fn name(&self, recording: &Recording, timeline: &CutTimeline) -> String {
        let missing: Vec<usize> =
            self.lost.iter().filter(|(_, lost)| **lost == RequestLoss::All).map(|(&place, _)| place).collect();
        let is_there = |place: &usize| recording.requests[*place].is_change() && timeline.is_open(*place, self.cut);
        let mut name = format!("cut={}", self.cut);
        for run in missing.chunk_by(|&one, &next| !(one + 1..next).any(|place| is_there(&place))) {
            match run {
                [one] => name += &format!(",missing={}", one + 1),
                [first, .., last] => name += &format!(",missing={}-{}", first + 1, last + 1),
                [] => {}
            }
        }
        for (place, lost) in &self.lost {
            if let RequestLoss::AllBut(there) = lost {
                name += &format!(",torn={}:{}", place + 1, Pieces(there));
            }
        }
        name
    }
}

/// Surviving pieces of a torn request as text, such as `0-3+6`.
#[derive(Debug)]
pub struct Pieces<'a>(pub &'a [(u32, u32)]);

impl fmt::Display for Pieces<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (first, last)) in self.0.iter().enumerate() {
            let gap = if place > 0 { "+" } else { "" };
            match first == last {
                true => write!(f, "{gap}{first}")?,
                false => write!(f, "{gap}{first}-{last}")?,
            }
        }
        Ok(())
    }
}
