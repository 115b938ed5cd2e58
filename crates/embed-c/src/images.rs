//! Images of power cuts for C: data states that a power cut may leave, of drives and of recordings. C gets lists of
//! them, their data, and power cuts that leave one.

use std::ffi::{CString, c_char, c_int, c_void};
use std::{ptr, slice};

use phaselink_embed::{LegalImage, Misuse, Survival, Time};

use super::{ARGUMENT, DESCRIPTION, OpenDrive, fail, misuse, null, result, text};

/// List of images, with their names and explanations as C strings.
#[derive(Debug)]
pub struct ImageList {
    images: Vec<(LegalImage, CString, CString)>,
}

/// Returns images of a drive's instant; see the header.
///
/// # Safety
/// Each pointer is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn phaselink_drive_images(
    drive: *const OpenDrive,
    wanted: usize,
    seed: u64,
    images: *mut *mut ImageList,
) -> c_int {
    // SAFETY: guaranteed by the caller, see `# Safety` above.
    let Some((open, into)) = (unsafe { drive.as_ref().zip(images.as_mut()) }) else { return null() };
    let found = match open.drive.images(wanted, seed) {
        Err(error) => return misuse(&error),
        Ok(found) => found,
    };
    *into = ImageList::give(found);
    0
}

impl ImageList {
    /// Allocates a list of images for C, which must free it.
    fn give(images: Vec<LegalImage>) -> *mut ImageList {
        let named = images.into_iter().map(|image| {
            let name = CString::new(image.name()).unwrap_or_default();
            let explanation = CString::new(image.explanation().join("\n")).unwrap_or_default();
            (image, name, explanation)
        });
        Box::into_raw(Box::new(ImageList { images: named.collect() }))
    }
}

/// Stores a list with one image to `into` and returns 0, or returns the number of the error.
fn give_one(found: Result<LegalImage, Misuse>, into: &mut *mut ImageList) -> c_int {
    match found {
        Err(error) => misuse(&error),
        Ok(image) => {
            *into = ImageList::give(vec![image]);
            0
        }
    }
}

/// Returns the image of a name as a list of one; see the header.
///
/// # Safety
/// Each pointer is null or valid, and `name` is null or ends in a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn phaselink_drive_image(
    drive: *const OpenDrive,
    name: *const c_char,
    images: *mut *mut ImageList,
) -> c_int {
    // SAFETY: guaranteed by the caller, see `# Safety` above.
    let Some((open, into)) = (unsafe { drive.as_ref().zip(images.as_mut()) }) else { return null() };
    // SAFETY: guaranteed by the caller, see `# Safety` above.
    match unsafe { text(name) } {
        Ok(name) => give_one(open.drive.image(name), into),
        Err(error) => error,
    }
}

/// Returns the image that a power cut draws as a list of one; see the header.
///
/// # Safety
/// Each pointer is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn phaselink_drive_drawn_image(
    drive: *const OpenDrive,
    seed: u64,
    images: *mut *mut ImageList,
) -> c_int {
    // SAFETY: guaranteed by the caller, see `# Safety` above.
    let Some((open, into)) = (unsafe { drive.as_ref().zip(images.as_mut()) }) else { return null() };
    give_one(open.drive.drawn_image(seed), into)
}

/// Returns images of a recording; see the header.
///
/// # Safety
/// Each pointer is null or valid, and the texts end in a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn phaselink_recording_images(
    file: *const c_char,
    name: *const c_char,
    wanted: usize,
    seed: u64,
    images: *mut *mut ImageList,
) -> c_int {
    // SAFETY: guaranteed by the caller, see `# Safety` above.
    let Some(into) = (unsafe { images.as_mut() }) else { return null() };
    // SAFETY: guaranteed by the caller, see `# Safety` above.
    let texts = unsafe { (text(file), if name.is_null() { Ok("") } else { text(name) }) };
    let (file, name) = match texts {
        (Ok(file), Ok(name)) => (file, name),
        (Err(error), _) | (_, Err(error)) => return error,
    };
    let bytes = match std::fs::read(file) {
        Ok(bytes) => bytes,
        Err(error) => return fail(DESCRIPTION, &format!("{file} cannot be read: {error}")),
    };
    let found = match name {
        "" => LegalImage::of_recording(file, &bytes, wanted, seed),
        name => LegalImage::named_of_recording(file, &bytes, name).map(|image| vec![image]),
    };
    match found {
        Err(problems) => fail(DESCRIPTION, &problems.to_string()),
        Ok(found) => {
            *into = ImageList::give(found);
            0
        }
    }
}

/// Puts an image on a drive; see the header.
///
/// # Safety
/// Each pointer is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn phaselink_drive_load_image(
    drive: *mut OpenDrive,
    images: *const ImageList,
    place: usize,
) -> c_int {
    // SAFETY: guaranteed by the caller, see `# Safety` above.
    let Some((open, list)) = (unsafe { drive.as_mut().zip(images.as_ref()) }) else { return null() };
    let Some((image, ..)) = list.images.get(place) else { return no_image() };
    result(open.drive.load_image(image))
}

/// Returns the number of images; see the header.
///
/// # Safety
/// `images` is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn phaselink_images_count(images: *const ImageList) -> usize {
    // SAFETY: guaranteed by the caller, see `# Safety` above.
    unsafe { images.as_ref() }.map_or(0, |list| list.images.len())
}

/// Returns the name of an image; see the header.
///
/// # Safety
/// `images` is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn phaselink_images_name(images: *const ImageList, place: usize) -> *const c_char {
    // SAFETY: guaranteed by the caller, see `# Safety` above.
    let list = unsafe { images.as_ref() };
    list.and_then(|list| list.images.get(place)).map_or(ptr::null(), |(_, name, _)| name.as_ptr())
}

/// Returns the explanation of an image; see the header.
///
/// # Safety
/// `images` is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn phaselink_images_explanation(images: *const ImageList, place: usize) -> *const c_char {
    // SAFETY: guaranteed by the caller, see `# Safety` above.
    let list = unsafe { images.as_ref() };
    list.and_then(|list| list.images.get(place)).map_or(ptr::null(), |(_, _, text)| text.as_ptr())
}

/// Reads bytes of an image; see the header.
///
/// # Safety
/// `images` is null or valid, and `into` is null or has room for so many bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn phaselink_images_read(
    images: *const ImageList,
    place: usize,
    offset: u64,
    into: *mut c_void,
    bytes: usize,
) -> c_int {
    // SAFETY: guaranteed by the caller, see `# Safety` above.
    let Some(list) = (unsafe { images.as_ref() }) else { return null() };
    if into.is_null() {
        return null();
    }
    let Some((image, ..)) = list.images.get(place) else { return no_image() };
    // SAFETY: guaranteed by the caller, see `# Safety` above.
    let into = unsafe { slice::from_raw_parts_mut(into.cast(), bytes) };
    result(image.read(offset, into))
}

fn no_image() -> c_int {
    fail(ARGUMENT, "there is no such place in the list of images")
}

/// Cuts the power and leaves an image; see the header.
///
/// # Safety
/// Each pointer is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn phaselink_drive_cut_power_to(
    drive: *mut OpenDrive,
    now_ps: u64,
    images: *const ImageList,
    place: usize,
) -> c_int {
    // SAFETY: guaranteed by the caller, see `# Safety` above.
    let Some((open, list)) = (unsafe { drive.as_mut().zip(images.as_ref()) }) else { return null() };
    let Some((image, ..)) = list.images.get(place) else { return no_image() };
    result(open.drive.cut_power(Time::from_ps(now_ps), Survival::Image(image)))
}

/// Frees images; see the header.
///
/// # Safety
/// `images` is null, or a list that [`phaselink_drive_images`] made and that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn phaselink_images_free(images: *mut ImageList) {
    if !images.is_null() {
        // SAFETY: guaranteed by the caller, see `# Safety` above.
        drop(unsafe { Box::from_raw(images) });
    }
}
