\set a random(1, 1000000)
\set b random_gaussian(1, 1000000, 2.5) + random_exponential(1, 10, 3.5)
\set e permute(:a, 1000000) # hash_fnv1a(:b, 5) >> 3 & ~7 | 1
\set g sqrt(:a) * pi() / 3 \
  + case when :a % 2 = 0 then null else ln(abs(-1.5e3)) end
\set h not (:a is null or :e <> 1 and true) isnull
\set i debug(greatest(1, -2, mod(7, 3))) + least(int(2.7), double(1)) + pow(2, 3) + exp(0)
SELECT :a, ':b', $$;$$, E'\'', "x;y", :x::int /* :c /* ; */ */ -- :d
;
\sleep :a us
\setshell n echo :a
\shell true ':'
SELECT 1 AS x \; SELECT 2 \aset p_
\if :a > 1
\elif :p_x
\else
\endif
