select * from usertable where ycsb_key = :key;
update usertable set field:f = :value where ycsb_key = :key;
