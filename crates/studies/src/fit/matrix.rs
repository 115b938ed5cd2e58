//! Symmetric matrices of a few rows: eigenvalues, eigenvectors and linear equations.

/// Largest number of Jacobi sweeps over all pairs of axes. A handful suffices for any matrix of a few rows (Golub and
/// Van Loan, *Matrix Computations*, 8.5).
const SWEEPS_MAX: usize = 50;
/// Share of a matrix's sum of squares that its off-diagonal elements may keep and still count as zero.
const NOTHING: f64 = 1e-24;

/// Matrix of numbers, stored as a list of rows.
pub(crate) type Rows = Vec<Vec<f64>>;

/// Eigenvalues and eigenvectors of a symmetric matrix.
pub(crate) struct PrincipalAxes {
    /// Eigenvalue of each principal axis.
    pub lengths: Vec<f64>,
    /// Eigenvectors of length 1: `axes[i]` belongs to the eigenvalue `lengths[i]`.
    pub axes: Rows,
}

/// Computes the principal axes of a symmetric matrix by Jacobi rotations.
pub(crate) fn axes(matrix: &Rows) -> PrincipalAxes {
    let size = matrix.len();
    let mut rotated = matrix.clone();
    let mut axes: Rows =
        (0..size).map(|row| (0..size).map(|column| f64::from(u8::from(row == column))).collect()).collect();
    let square = |rows: &Rows, only_off: bool| -> f64 {
        let cells = (0..size).flat_map(|row| (0..size).map(move |column| (row, column)));
        cells
            .filter(|(row, column)| !only_off || row != column)
            .map(|(row, column)| rows[row][column] * rows[row][column])
            .sum()
    };
    let whole = square(matrix, false);
    for _ in 0..SWEEPS_MAX {
        if square(&rotated, true) <= NOTHING * whole {
            break;
        }
        for first in 0..size {
            for second in first + 1..size {
                jacobi_rotate(&mut rotated, &mut axes, first, second);
            }
        }
    }
    PrincipalAxes { lengths: (0..size).map(|place| rotated[place][place]).collect(), axes }
}

/// Rotates two axes of a symmetric matrix so that the element between them becomes zero (Jacobi rotation).
fn jacobi_rotate(matrix: &mut Rows, axes: &mut Rows, first: usize, second: usize) {
    let between = matrix[first][second];
    if between == 0.0 {
        return;
    }
    let half = (matrix[second][second] - matrix[first][first]) / (2.0 * between);
    let tangent = libm::copysign(1.0, half) / (half.abs() + libm::sqrt(half * half + 1.0));
    let cosine = 1.0 / libm::sqrt(tangent * tangent + 1.0);
    let sine = tangent * cosine;
    for row in matrix.iter_mut() {
        (row[first], row[second]) =
            (cosine * row[first] - sine * row[second], sine * row[first] + cosine * row[second]);
    }
    for rows in [matrix, axes] {
        let turned = rows[first].iter().zip(&rows[second]);
        let (turned_first, turned_second) = turned.map(|(a, b)| (cosine * a - sine * b, sine * a + cosine * b)).unzip();
        (rows[first], rows[second]) = (turned_first, turned_second);
    }
}

impl PrincipalAxes {
    /// Returns the vector that the matrix maps to `values`. Eigenvalues below `least` times the largest are raised to
    /// that, because the solution along their axes would be arbitrary.
    pub(crate) fn solve(&self, values: &[f64], least: f64) -> Vec<f64> {
        let longest = self.lengths.iter().copied().fold(0.0, f64::max).max(f64::MIN_POSITIVE);
        let mut solution = vec![0.0; values.len()];
        for (length, axis) in self.lengths.iter().zip(&self.axes) {
            let along = scalar_product(axis, values) / length.max(least * longest);
            solution.iter_mut().zip(axis).for_each(|(sum, part)| *sum += along * part);
        }
        solution
    }
}

/// Returns the scalar product of two vectors.
pub(super) fn scalar_product(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn solution_of_a_linear_system_satisfies_it() {
        let matrix = vec![vec![4.0, 1.0, -0.5], vec![1.0, 3.0, 0.25], vec![-0.5, 0.25, 0.01 + 0.5]];
        let solution = axes(&matrix).solve(&[1.0, -2.0, 3.0], 1e-12);
        let back: Vec<f64> = matrix.iter().map(|row| scalar_product(row, &solution)).collect();
        assert!(back.iter().zip([1.0, -2.0, 3.0]).all(|(a, b): (&f64, f64)| (a - b).abs() < 1e-12), "{back:?}");
    }

    #[test]
    fn principal_axis_with_eigenvalue_zero_is_found() {
        let found = axes(&vec![vec![1.0, 1.0], vec![1.0, 1.0]]);
        let least = (0..2).min_by(|a, b| found.lengths[*a].total_cmp(&found.lengths[*b])).unwrap();
        assert!(found.lengths[least].abs() < 1e-15 && (found.lengths[1 - least] - 2.0).abs() < 1e-15);
        assert!((found.axes[least][0] + found.axes[least][1]).abs() < 1e-15, "{:?}", found.axes);
    }
}
