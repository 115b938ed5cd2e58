/* Latencies of @DRIVE@, by phaselink export.
 *
 * phaselink_latency_ns() and phaselink_latency_at_load_ns() return the latency that a share of requests (0 to 1) does not
 * exceed; draw the share uniformly for each request. The first takes the number of requests in flight, this one included, the
 * second the load in per cent of phaselink_largest_iops(). Use the load for buffered writes. C99, no library, no state.
 *
 * Median errors beside the simulated drive, for requests at random times:
 * by the load @BY_LOAD@; by the requests in flight @BY_IN_FLIGHT@.
 */
#ifndef PHASELINK_LATENCY_H
#define PHASELINK_LATENCY_H

enum { PHASELINK_READ = 0, PHASELINK_WRITE = 1 };
@DATA@
/* Finds a value in a rising list: its neighbours, and the weight of the higher one. Returns 0 outside. */
static inline int phaselink_between(const double *list, int count, double value, int *neighbours, double *weight)
{
    int place = 0;
    while (place < count && list[place] < value) {
        place++;
    }
    if (place == count || (place == 0 && list[0] > value) || value != value) {
        return 0;
    }
    neighbours[0] = list[place] == value ? place : place - 1;
    neighbours[1] = place;
    *weight = neighbours[0] == place ? 0.0 : (value - list[place - 1]) / (list[place] - list[place - 1]);
    return 1;
}

/* Returns a latency of a table with these levels in ns, or -1 outside its conditions. */
static inline double phaselink_look_up(const double *ns, const double *levels, int level_count, int mix, int direction,
                                       double bytes, double level, double share)
{
    int size[2], row[2], quantile[2], corner;
    double weight[3], sum = 0.0;
    if (mix < 0 || mix >= PHASELINK_MIXES || direction < PHASELINK_READ || direction > PHASELINK_WRITE ||
        !phaselink_between(phaselink_bytes, PHASELINK_SIZES, bytes, size, &weight[0]) ||
        !phaselink_between(levels, level_count, level, row, &weight[1]) ||
        !phaselink_between(phaselink_percents, PHASELINK_QUANTILES, 100.0 * share, quantile, &weight[2])) {
        return -1.0;
    }
    for (corner = 0; corner < 8; corner++) {
        int i = corner & 1, j = corner >> 1 & 1, k = corner >> 2;
        int place = (((mix * 2 + direction) * PHASELINK_SIZES + size[i]) * level_count + row[j]) * PHASELINK_QUANTILES + quantile[k];
        if (ns[place] < 0.0) {
            return -1.0;
        }
        sum += (i ? weight[0] : 1.0 - weight[0]) * (j ? weight[1] : 1.0 - weight[1]) *
               (k ? weight[2] : 1.0 - weight[2]) * ns[place];
    }
    return sum;
}

/* Returns the latency in ns at a mix (its place in phaselink_read_percents) and a number of requests in flight, or -1 outside
 * the conditions. */
static inline double phaselink_latency_ns(int mix, int direction, double bytes, double in_flight, double share)
{
    return phaselink_look_up(phaselink_ns, phaselink_in_flight, PHASELINK_DEPTHS, mix, direction, bytes, in_flight, share);
}

/* Returns the latency in ns at a mix and a load in per cent of the largest throughput, or -1 outside the loads. */
static inline double phaselink_latency_at_load_ns(int mix, int direction, double bytes, double load_percent, double share)
{
    return phaselink_look_up(phaselink_load_ns, phaselink_load_percents, PHASELINK_LOADS, mix, direction, bytes, load_percent,
                             share);
}

/* Returns the largest throughput in requests a second at a mix and size, or -1 outside the sizes. */
static inline double phaselink_largest_iops(int mix, double bytes)
{
    int size[2];
    double weight;
    if (mix < 0 || mix >= PHASELINK_MIXES || !phaselink_between(phaselink_bytes, PHASELINK_SIZES, bytes, size, &weight)) {
        return -1.0;
    }
    return phaselink_iops_max[mix * PHASELINK_SIZES + size[0]] * (1.0 - weight) +
           phaselink_iops_max[mix * PHASELINK_SIZES + size[1]] * weight;
}

#endif
