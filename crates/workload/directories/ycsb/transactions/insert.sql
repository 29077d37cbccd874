insert into usertable (ycsb_key, field0, field1, field2, field3, field4, field5, field6, field7, field8, field9)
values (:key, :value0, :value1, :value2, :value3, :value4, :value5, :value6, :value7, :value8, :value9);
