import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.connector.source.lib.NumberSequenceSource;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/** The rows of every load, as functions of their number: the same as in loads.py. */
final class Rows {
    private Rows() {}

    static long key(String load, long keys, long i) {
        long hashed = i * 2654435761L % 4294967296L;
        switch (load) {
            case "sum":
                return hashed % keys;
            case "distinct":
                return i * 2654435761L;
            case "large":
                return i < keys ? i : hashed % keys;
            case "session":
                return (i / 1000 * 37 + hashed % 100) % keys;
            default:
                throw new IllegalArgumentException("load is " + load);
        }
    }

    static long time(long i) {
        return i - i * 7919 % 500;
    }

    /**
     * The numbers of all rows. Flink gives each subtask one contiguous part of a sequence; the map spreads the
     * parts, so that all subtasks are at the same place of the stream at the same time, as in the other engines.
     */
    static SingleOutputStreamOperator<Long> numbers(StreamExecutionEnvironment env, long rows, int slots) {
        if (rows % slots != 0) {
            throw new IllegalArgumentException("rows is " + rows + "; it must be a multiple of slots, " + slots);
        }
        long part = rows / slots;
        return env.fromSource(
                        new NumberSequenceSource(0, rows - 1), WatermarkStrategy.noWatermarks(), "numbers")
                .map(j -> j % part * slots + j / part)
                .returns(Types.LONG);
    }
}
